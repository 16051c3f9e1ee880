"""Files of the real data sets: where they come from, and proof that they are unaltered."""

import gzip
import hashlib
import importlib
import os
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_cache_path

from headway.errors import HeadwayError

# A server that says nothing for so long is given up, and the next address is tried.
PATIENCE_SECONDS = 20.0


class Address(NamedTuple):
    """A public address: of the file itself, or of a zip archive that has it as a member."""

    url: str
    member: str | None = None


class DataFile(NamedTuple):
    """One published file. The digest of a text is that of its lines, see `content_at`."""

    dataset: str
    name: str
    sha256: str
    addresses: tuple[Address, ...]
    text: bool = False


class FileRead(NamedTuple):
    """What was read: a path on this machine and the digest found there."""

    path: str
    sha256: str


def mnist_file(name: str, sha256: str) -> DataFile:
    """An MNIST file: several public places keep the same names and bytes."""
    places = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    )
    return DataFile("mnist", name, sha256, tuple(Address(place + name) for place in places))


UCI = "https://archive.ics.uci.edu/"
CLEVELAND = "processed.cleveland.data"
COUPON = "in-vehicle-coupon-recommendation.csv"

# Many copies in circulation are altered (classes merged, rows dropped), some at the same size.
# Archives get repacked, so it is the member that is pinned.
DATA_FILES = {
    "mnist": (
        mnist_file(
            "train-images-idx3-ubyte.gz",
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        mnist_file(
            "train-labels-idx1-ubyte.gz",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
    ),
    "heart": (
        DataFile(
            "heart",
            CLEVELAND,
            "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
            (
                Address(f"{UCI}ml/machine-learning-databases/heart-disease/{CLEVELAND}"),
                Address(f"{UCI}static/public/45/heart+disease.zip", CLEVELAND),
            ),
            text=True,
        ),
    ),
    "coupon": (
        DataFile(
            "coupon",
            COUPON,
            "87e841f5d41cdaf31a09d0a0770187b2fc9cabe4171c30bf7ea2182dd074abaa",
            (
                Address(f"{UCI}ml/machine-learning-databases/00603/{COUPON}"),
                Address(f"{UCI}static/public/603/in+vehicle+coupon+recommendation.zip", COUPON),
            ),
            text=True,
        ),
    ),
}


def needed(module: str, package: str, purpose: str) -> Any:  # noqa: ANN401 - a module
    """A module of the extra `data`, or one sentence with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        raise HeadwayError(
            f"{purpose} needs {package} ({problem}): pip install 'headway[data]'"
        ) from None


def sha256_of(content: bytes) -> str:
    """The digest in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def content_at(path: Path, *, text: bool) -> bytes:
    """The bytes of a file; a text may be gzipped, and its line ends become single newlines.

    Copies of one text differ in carriage returns and in the newline at the end, which no reader
    of the rows can see.
    """
    content = path.read_bytes()
    if not text:
        return content
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            return content  # damaged: the digest will say so
    return content.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"


def read_file(file: DataFile, data_dir: str | os.PathLike[str] | None) -> tuple[bytes, FileRead]:
    """The verified content: from `data_dir`, else HEADWAY_DATA_DIR, else cache or network."""
    chosen = data_dir if data_dir is not None else os.environ.get("HEADWAY_DATA_DIR") or None
    if chosen is not None:
        return from_folder(file, Path(chosen).expanduser())
    return from_cache(file, cache_folder() / file.dataset)


def from_folder(file: DataFile, folder: Path) -> tuple[bytes, FileRead]:
    """The content of a person's own copy, which is only ever read."""
    path = folder / file.dataset / file.name
    packed = path.with_name(path.name + ".gz")
    if file.text and packed.exists() and not path.exists():
        path = packed
    try:
        content = content_at(path, text=file.text)
    except FileNotFoundError:
        raise HeadwayError(
            f"{file.dataset}: no file {str(path)!r} (expected sha256 {file.sha256}, found nothing):"
            " put it there, choose another HEADWAY_DATA_DIR or --data-dir, or give none to download"
        ) from None
    except OSError as problem:
        raise HeadwayError(
            f"{file.dataset}: cannot read {str(path)!r} ({problem.strerror or problem})"
        ) from None
    found = sha256_of(content)
    if found != file.sha256:
        raise HeadwayError(
            f"{file.dataset}: {str(path)!r} is altered (expected sha256 {file.sha256}, "
            f"found {found}): replace it by the published file"
        )
    return content, FileRead(str(path), found)


def cache_folder() -> Path:
    """Where downloads are kept: under HEADWAY_CACHE_DIR or the user's cache."""
    chosen = os.environ.get("HEADWAY_CACHE_DIR")
    return (Path(chosen) if chosen else user_cache_path("headway")) / "datasets"


def from_cache(file: DataFile, folder: Path) -> tuple[bytes, FileRead]:
    """The content of an earlier download, or of a new one. A damaged cache mends itself."""
    path = folder / file.name
    try:
        if path.is_file():
            content = content_at(path, text=file.text)
            if sha256_of(content) == file.sha256:
                return content, FileRead(str(path), file.sha256)
        folder.mkdir(parents=True, exist_ok=True)
        # A neighbour that is renamed once it is verified: no reader ever sees half a file.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as name:
            fresh = Path(name) / file.name
            content = download(file, fresh)
            fresh.replace(path)
    except OSError as problem:
        raise HeadwayError(
            f"{file.dataset}: cannot use the cache {str(path)!r} ({problem.strerror or problem}): "
            "choose another HEADWAY_CACHE_DIR"
        ) from None
    return content, FileRead(str(path), file.sha256)


def download(file: DataFile, target: Path) -> bytes:
    """Try the addresses in turn until one delivers the published content."""
    purpose = f"{file.dataset}: without HEADWAY_DATA_DIR or --data-dir a download"
    pooch = needed("pooch", "pooch", purpose)
    requests = needed("requests", "requests", purpose)
    get = pooch.HTTPDownloader(timeout=PATIENCE_SECONDS)
    refusals = []
    for address in file.addresses:
        try:
            get(address.url, str(target), None)
            if address.member is not None:
                with zipfile.ZipFile(target) as archive:
                    member = archive.read(address.member)
                target.write_bytes(member)
        except requests.HTTPError as problem:
            refusals.append(f"{address.url} answered {problem.response.status_code}")
        except requests.RequestException:
            refusals.append(f"{address.url} cannot be reached")
        except (zipfile.BadZipFile, KeyError, RuntimeError, zlib.error):
            refusals.append(f"{address.url} is no archive with {address.member}")
        else:
            content = content_at(target, text=file.text)
            found = sha256_of(content)
            if found == file.sha256:
                return content
            refusals.append(f"{address.url} delivered sha256 {found}")
    raise HeadwayError(
        f"{file.dataset}: cannot download {file.name} (expected sha256 {file.sha256}; "
        f"{'; '.join(refusals)}): go online, or set HEADWAY_DATA_DIR or --data-dir to a folder "
        f"that has {file.dataset}/{file.name}"
    )
