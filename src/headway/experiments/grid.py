"""A grid of independent cells: what each runs, its name by content, its result on disk.

A cell is a few replicas of one policy in one world. Its name is a digest of everything that its
result depends on, the code included; so finished cells are found again, whoever asked for them.
"""

import functools
import hashlib
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import headway
from headway.compiled import PACKAGE, source_hash
from headway.errors import HeadwayError
from headway.experiments.spec import Experiment
from headway.experiments.worlds import make_world
from headway.files import write_whole
from headway.policy import Policy
from headway.settings import find_policy, setting_names
from headway.sim.compare import replayed
from headway.sim.run import Advance, simulate
from headway.state import Floats

COLUMNS = 500  # of a stored trajectory
REPLICAS_A_CELL = 10


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A few replicas of one policy in one world."""

    policy: str
    world: dict[str, Any]
    learner: str | None
    settings: dict[str, Any]
    rounds: int
    seed: int
    first: int
    replicas: int

    @property
    def every(self) -> int:
        """Which columns are kept."""
        return max(1, self.rounds // COLUMNS)

    @functools.cached_property
    def digest(self) -> str:
        """Its name: a digest of what its result depends on."""
        own = [file_hash(each) for each in (self.policy.rpartition(":")[0] or self.policy,
               str(self.world.get("tape", "")), str(self.world.get("theta_star", "")))]  # fmt: skip
        content = [asdict(self), own, headway.__version__, code_hash()]
        text = json.dumps(content, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def weight(self) -> float:
        """About how much work it is, in rounds of a cheap policy."""
        dimension = float(self.world.get("dimension", 30 if "data" in self.world else 5))
        dear = self.learner == "paper"
        factor = (3.0 + dimension**2 / 20.0) if dear else 1.0
        if self.policy == "cqb-ts":
            factor *= 8.0
        return self.rounds * self.replicas * factor


class Place(NamedTuple):
    """Where a cell's replicas belong in an experiment."""

    version: str
    variant: str
    value: Any  # of the axis; None = nothing varies
    policy: str


# Sources on which a trajectory depends beyond those of the compiled code.
READERS = (
    "world/datasets.py", "world/data_files.py", "world/trace.py", "world/outcomes.py",
    "experiments/worlds.py", "experiments/grid.py",
)  # fmt: skip


@functools.cache
def code_hash() -> str:
    """Changes with any source on which a trajectory depends."""
    digest = hashlib.blake2b(source_hash().encode(), digest_size=16)
    for name in READERS:
        digest.update((PACKAGE / name).read_bytes())
    return digest.hexdigest()


@functools.cache
def file_hash(name: str) -> str:
    """The content of a person's file; nothing where it names none."""
    path = Path(name)
    if path.suffix not in (".py", ".csv", ".parquet") or not path.is_file():
        return ""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def cells_of(
    experiment: Experiment, *, replicas: int | None = None, rounds: int | None = None
) -> list[tuple[Place, list[Cell]]]:
    """Every trajectory of an experiment and the cells that its replicas are in."""
    replicas = experiment.replicas if replicas is None else replicas
    rounds = experiment.rounds if rounds is None else rounds
    for name, value in (("rounds", rounds), ("replicas", replicas)):
        if value < 1:
            raise HeadwayError(f"{name} {value} must be at least 1 ({experiment.id})")
    found: list[tuple[Place, list[Cell]]] = []
    policies = [(reference, find_policy(reference)) for reference in experiment.policies]
    if "optimal" not in experiment.policies:
        policies.append(("optimal", find_policy("optimal")))
    for variant_name in experiment.variants or [""]:
        for value in experiment.vary.get(experiment.axis, [None]):
            world = dict(experiment.world)
            if variant_name:
                world.update(experiment.variants[variant_name].world)
            if value is not None:
                world[experiment.axis] = value
            for version in experiment.versions or [""]:
                for reference, policy in policies:
                    learner, settings = ways(experiment, version, variant_name, policy)
                    place = Place(version, variant_name, value, policy.name)
                    whole = Cell(
                        policy=reference, world=world, learner=learner, settings=settings,
                        rounds=rounds, seed=experiment.seed, first=0, replicas=replicas,
                    )  # fmt: skip
                    found.append((place, pieces(whole)))
    return found


def pieces(whole: Cell) -> list[Cell]:
    """A cell in pieces of about a second."""
    fields = asdict(whole)
    return [
        Cell(**{**fields, "first": first, "replicas": min(REPLICAS_A_CELL, whole.replicas - first)})
        for first in range(0, whole.replicas, REPLICAS_A_CELL)
    ]


def ways(
    experiment: Experiment, version_name: str, variant_name: str, policy: Policy
) -> tuple[str | None, dict[str, Any]]:
    """The learner and the settings of a policy in one version and variant."""
    version = experiment.version(version_name)
    usable = [each for each in (version.learner, version.otherwise) if each in policy.learners]
    learner = usable[0] if usable else None
    names = setting_names(policy, learner or policy.learners[0])
    settings = {name: value for name, value in version.settings.items() if name in names}
    settings.update(experiment.settings.get(policy.name, {}))
    if variant_name:
        settings.update(experiment.variants[variant_name].settings.get(policy.name, {}))
    return learner, settings


class Result(NamedTuple):
    """What a cell leaves: a row a replica."""

    round: Floats
    queue_length: Floats
    queue_mean: Floats
    queue_final: Floats
    wait_p50: Floats
    wait_p99: Floats
    optimal_length: Floats  # of `optimal` on the same jobs where the world adapts, else (0, 0)
    acceptance: Floats
    redraws: Floats
    burn_in: Floats
    remarks: tuple[str, ...]


def run_cell(cell: Cell, *, data_dir: str | None = None, advance: Advance | None = None) -> Result:
    """Simulate a cell on this thread."""
    world = make_world(cell.world, data_dir)
    size: dict[str, Any] = {"rounds": cell.rounds, "seed": cell.seed, "threads": 1}
    run = simulate(
        find_policy(cell.policy), world, replicas=cell.replicas, first_replica=cell.first,
        learner=cell.learner, every=cell.every, advance=advance, **size, **cell.settings,
    )  # fmt: skip
    yardstick = np.empty((0, 0))
    if world.adaptive:
        yardstick = simulate(
            "optimal", world, replicas=cell.replicas, first_replica=cell.first, every=cell.every,
            instances=replayed(run), **size,
        ).queue_length.astype(np.float64)  # fmt: skip
    return Result(
        round=run.round.astype(np.float64),
        queue_length=run.queue_length.astype(np.float64),
        queue_mean=run.queue_mean,
        queue_final=run.queue_final.astype(np.float64),
        wait_p50=run.wait(0.50).astype(np.float64),
        wait_p99=run.wait(0.99).astype(np.float64),
        optimal_length=yardstick,
        acceptance=run.acceptance,
        redraws=run.redraws.astype(np.float64),
        burn_in=np.full(cell.replicas, float(run.settings.get("burn_in_rounds", 0))),
        remarks=run.remarks,
    )


def store(path: Path, result: Result) -> None:
    """A digest, then the arrays: what was cut short is never taken for a result."""
    buffer = io.BytesIO()
    arrays = {name: value for name, value in result._asdict().items() if name != "remarks"}
    np.savez_compressed(buffer, remarks=np.array(json.dumps(result.remarks)), **arrays)
    content = buffer.getvalue()
    seal = hashlib.blake2b(content, digest_size=16).digest()
    write_whole(path, lambda target: target.write_bytes(seal + content))


def recall(path: Path) -> Result | None:
    """A stored result, or None where there is none or it is damaged."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise HeadwayError(f"cannot read {str(path)!r} ({problem.strerror or problem})") from None
    seal, content = raw[:16], raw[16:]
    if hashlib.blake2b(content, digest_size=16).digest() != seal:
        return None
    with np.load(io.BytesIO(content)) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "remarks"}
        return Result(**arrays, remarks=tuple(json.loads(str(stored["remarks"]))))


def joined(results: list[Result]) -> Result:
    """The pieces of one trajectory together, in the order of their replicas."""
    fields: dict[str, Any] = {}
    for name in Result._fields:
        parts = [getattr(each, name) for each in results]
        if name == "remarks":
            fields[name] = tuple(dict.fromkeys(remark for part in parts for remark in part))
        elif name == "round":
            fields[name] = parts[0]
        else:
            fields[name] = np.concatenate(parts)
    return Result(**fields)
