"""Proves that the data sets are read as documented, and that only published files are read."""

import gzip
import hashlib
import http.server
import io
import itertools
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest

from headway.errors import HeadwayError
from headway.world import data_files, datasets
from headway.world.data_files import Address, DataFile
from headway.world.datasets import load


def idx_gz(array):
    """An array of bytes as MNIST's files have it."""
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return gzip.compress(head + array.tobytes())


def csv_text(rows):
    return "".join(",".join(map(str, row)) + "\n" for row in rows).encode()


IMAGES = np.random.default_rng(1).integers(0, 256, (6, 28, 28), np.uint8)
DIGITS = np.array([3, 0, 9, 9, 1, 4], np.uint8)


def heart_rows():
    """Two levels a category, and of class c a column `chol` between 100 c and 100 c + 20."""
    draw = np.random.default_rng(2)
    for label, count in enumerate([14, 9, 8, 7, 6]):
        for _ in range(count):
            sex, cp, fbs, restecg, exang, slope, thal = draw.integers(1, 3, 7)
            chol = 100 * label + draw.integers(0, 20)
            age, rest, rate, peak, vessels = draw.integers(0, 9, 5)
            yield (
                age, sex, cp, rest, chol, fbs, restecg, rate, exang, peak, slope, vessels, thal,
                label,
            )  # fmt: skip
    yield (9, 1, 1, 9, 9, 1, 1, 9, 1, 9, 1, "?", 1, 4)
    yield (9, 1, 1, 9, 9, 1, 1, 9, 1, 9, 1, 9, "?", 0)


COUPON = csv_text(
    [
        ("weather", "temperature", "car", "Bar", "constant", "Y"),
        ("Sunny", 55, "", "never", 1, 1),
        ("Snowy", 30, "Scooter", "1~3", 1, 0),
        ("Sunny", 80, "", "", 1, 0),  # misses more than its car
        ("Sunny", 80, "", "1~3", 1, 0),
    ]
)
TINY = {
    "mnist": {"images.gz": idx_gz(IMAGES), "labels.gz": idx_gz(DIGITS)},
    "heart": {"heart.data": csv_text(heart_rows())},
    "coupon": {"coupon.csv": COUPON},
}


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """No folder of data, an empty cache, and no proxy before the local server."""
    monkeypatch.delenv("HEADWAY_DATA_DIR", raising=False)
    monkeypatch.setenv("HEADWAY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Small files of the same formats in a folder, and their digests in the table."""
    folder = tmp_path / "data"
    for name, files in TINY.items():
        (folder / name).mkdir(parents=True)
        entries = []
        for file, content in files.items():
            (folder / name / file).write_bytes(content)
            entries.append(DataFile(name, file, sha256(content), (), text=name != "mnist"))
        monkeypatch.setitem(data_files.DATA_FILES, name, tuple(entries))
    return folder


class Server:
    """What a local HTTP server has on offer, and what it was asked for."""

    def __init__(self):
        self.offers = {}
        self.asked = []


@pytest.fixture
def server():
    """A web server of this machine: a path that it does not offer is a 404."""
    found = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found.asked.append(self.path)
            content = found.offers.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_):
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        found.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield found
        listening.shutdown()
        thread.join()


@pytest.fixture
def coupon_at(monkeypatch):
    """Says where the tiny coupon file is to be had."""

    def publish(*addresses):
        places = tuple(a if isinstance(a, Address) else Address(a) for a in addresses)
        file = DataFile("coupon", "coupon.csv", sha256(COUPON), places, text=True)
        monkeypatch.setitem(data_files.DATA_FILES, "coupon", (file,))

    return publish


def cached(tmp_path):
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def refusal(*arguments, **settings):
    """The one sentence of the error."""
    with pytest.raises(HeadwayError) as caught:
        load(*arguments, **settings)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


# Readings, on tiny files.


def test_mnist_is_the_mean_of_each_block(tiny):
    found = load("mnist", data_dir=tiny)
    naive = np.array(
        [
            [
                (image[4 * i : 4 * i + 4, 4 * j : 4 * j + 4] / 255).mean()
                for i, j in itertools.product(range(7), repeat=2)
            ]
            for image in IMAGES
        ]
    )
    assert np.allclose(found.contexts, naive, rtol=0, atol=1e-15)
    assert found.labels.tolist() == DIGITS.tolist()
    assert (found.servers, found.arrival_rate) == (10, 0.15)
    assert [entry.sha256 for entry in found.source] == list(map(sha256, TINY["mnist"].values()))


def test_numeric_columns_are_standardised_whatever_the_order_of_rows():
    values = np.random.default_rng(3).standard_cauchy(1001) ** 3
    found = datasets.standardised(list(map(repr, values.tolist())))
    assert abs(found.mean()) < 1e-9
    assert abs(found.std() - 1.0) < 1e-12
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(values))
        again = datasets.standardised(list(map(repr, values[order].tolist())))
        assert np.array_equal(again, found[order])


def test_a_constant_column_becomes_zero_not_nan():
    assert datasets.standardised(["0.1"] * 7).tolist() == [0.0] * 7
    assert datasets.standardised(["1e300"] * 3).tolist() == [0.0] * 3


def test_categories_become_one_column_a_level_in_order():
    table = {"a": ["y", "", "y"], "n": ["1", "2", "3"], "b": ["q", "q", "p"]}
    step = np.sqrt(1.5)
    expected = [[0, 1, -step, 0, 1], [1, 0, 0, 0, 1], [0, 1, step, 1, 0]]
    assert np.allclose(datasets.features(table, {"n"}), expected, rtol=0, atol=1e-15)


def test_heart_is_complete_rows_balanced_then_sampled(tiny):
    found = load("heart", data_dir=tiny, seed=5)
    assert found.contexts.shape == (datasets.SAMPLED_ROWS, 7 * 2 + 6)
    assert (found.servers, found.arrival_rate) == (5, 0.2)
    share = np.bincount(found.labels) / len(found.labels)
    assert np.abs(share - 0.2).max() < 0.03
    assert len(np.unique(found.contexts, axis=0)) <= 5 * 14
    # A row that SMOTE made lies between two of its class: the shares of a category still sum to 1,
    # and the column that separates the classes still does.
    assert np.allclose(found.contexts[:, 1:3].sum(axis=1), 1.0)
    chol = found.contexts[:, 6]
    borders = [(chol[found.labels == k].min(), chol[found.labels == k].max()) for k in range(5)]
    assert all(low[1] < high[0] for low, high in itertools.pairwise(borders))
    assert "the 44 complete rows of 46" in found.about
    assert "to 70 rows" in found.about


def test_coupon_drops_rows_that_miss_anything_but_the_car(tiny):
    found = load("coupon", data_dir=tiny)
    # Columns: Snowy, Sunny, temperature, no car, Scooter, 1~3, never, constant.
    rows = {tuple((row != 0).astype(int)) for row in np.delete(found.contexts, 2, axis=1)}
    assert rows == {(0, 1, 1, 0, 0, 1, 1), (1, 0, 0, 1, 1, 0, 1), (0, 1, 1, 0, 1, 0, 1)}
    accepted = found.contexts[found.labels == 1]
    assert accepted.shape == (1, 8)
    assert accepted[0, 6] == 1.0
    kept = np.array([55.0, 30.0, 80.0])
    expected = np.sort((kept - kept.mean()) / kept.std())
    assert np.allclose(np.sort(found.contexts[:, 2]), expected)
    assert (found.servers, found.arrival_rate) == (2, 0.5)


def test_coupon_samples_without_replacement(tiny, monkeypatch):
    monkeypatch.setattr(datasets, "SAMPLED_ROWS", 2)
    samples = [load("coupon", data_dir=tiny, seed=seed).contexts for seed in range(8)]
    assert all(len(np.unique(rows, axis=0)) == 2 for rows in samples)
    assert len({rows.tobytes() for rows in samples}) > 1


def test_the_rows_that_smote_makes_depend_on_the_seed(tiny):
    both = np.vstack([load("heart", data_dir=tiny, seed=seed).contexts for seed in (7, 8)])
    assert len(np.unique(both, axis=0)) > 5 * 14


@pytest.mark.parametrize("name", ["mnist", "heart", "coupon"])
def test_the_seed_decides_everything(tiny, name):
    one, same, other = (load(name, data_dir=tiny, seed=seed) for seed in (7, 7, 8))
    assert one.contexts.tobytes() == same.contexts.tobytes()
    assert one.labels.tobytes() == same.labels.tobytes()
    assert (one.contexts.tobytes() == other.contexts.tobytes()) == (name == "mnist")


def test_a_large_seed_is_as_good(tiny):
    assert np.isfinite(load("heart", data_dir=tiny, seed=2**63).contexts).all()


def test_an_unknown_name_and_a_bad_seed_are_refused(tiny):
    assert refusal("mnits") == "unknown data set 'mnits': did you mean mnist?"
    assert refusal("zoo") == "unknown data set 'zoo': known: coupon, heart, mnist"
    assert refusal(["mnist"]).startswith("unknown data set")
    for seed in (-1, 1.5, True, "0"):
        assert f"seed {seed!r} must be a whole number" in refusal("mnist", data_dir=tiny, seed=seed)


# A person's own folder.


def test_the_folder_given_wins_over_the_environment(tiny, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADWAY_DATA_DIR", str(tmp_path / "elsewhere"))
    assert load("mnist", data_dir=str(tiny)).source[0].path.startswith(str(tiny))
    assert str(tmp_path / "elsewhere" / "mnist" / "images.gz") in refusal("mnist")
    monkeypatch.setenv("HEADWAY_DATA_DIR", str(tiny))
    assert len(load("mnist").labels) == 6


def test_an_empty_variable_is_no_folder(coupon_at, server, monkeypatch):
    monkeypatch.setenv("HEADWAY_DATA_DIR", "")
    server.offers["/coupon.csv"] = COUPON
    coupon_at(f"{server.url}/coupon.csv")
    assert len(load("coupon").labels) == 3


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("coupon.csv.gz", gzip.compress(COUPON)),
        ("coupon.csv", COUPON.replace(b"\n", b"\r\n")),
        ("coupon.csv", COUPON.rstrip(b"\n")),
        ("coupon.csv", COUPON + b"\n"),
    ],
    ids=["gzipped", "carriage returns", "no last newline", "two last newlines"],
)
def test_a_text_is_the_same_however_its_lines_end(tiny, name, content):
    plain = load("coupon", data_dir=tiny)
    (tiny / "coupon" / "coupon.csv").unlink()
    (tiny / "coupon" / name).write_bytes(content)
    found = load("coupon", data_dir=tiny)
    assert np.array_equal(found.contexts, plain.contexts)
    assert found.source == ((str(tiny / "coupon" / name), sha256(COUPON)),)


def test_an_altered_file_is_named_with_both_digests(tiny):
    path = tiny / "heart" / "heart.data"
    altered = path.read_bytes().replace(b",4\n", b",1\n")
    path.write_bytes(altered)
    found = refusal("heart", data_dir=tiny)
    assert str(path) in found
    assert (
        f"expected sha256 {sha256(TINY['heart']['heart.data'])}, found {sha256(altered)}" in found
    )


def test_a_damaged_archive_is_an_altered_file(tiny):
    (tiny / "coupon" / "coupon.csv").unlink()
    half = gzip.compress(COUPON)[:-20]
    (tiny / "coupon" / "coupon.csv.gz").write_bytes(half)
    found = refusal("coupon", data_dir=tiny)
    assert f"expected sha256 {sha256(COUPON)}, found {sha256(half)}" in found


def test_what_cannot_be_read_is_one_sentence(tiny):
    assert "Not a directory" in refusal("mnist", data_dir=tiny / "mnist" / "images.gz")
    (tiny / "coupon" / "coupon.csv").unlink()
    (tiny / "coupon" / "coupon.csv").mkdir()
    assert "Is a directory" in refusal("coupon", data_dir=tiny)


def test_a_folder_is_never_written_to_and_never_completed_from_the_network(
    tiny, coupon_at, server, tmp_path
):
    server.offers["/coupon.csv"] = COUPON
    coupon_at(f"{server.url}/coupon.csv")
    (tiny / "coupon" / "coupon.csv").unlink()
    before = {path: path.stat().st_mtime_ns for path in tiny.rglob("*")}
    found = refusal("coupon", data_dir=tiny)
    assert str(tiny / "coupon" / "coupon.csv") in found
    assert f"expected sha256 {sha256(COUPON)}, found nothing" in found
    load("mnist", data_dir=tiny)
    assert {path: path.stat().st_mtime_ns for path in tiny.rglob("*")} == before
    assert server.asked == []
    assert cached(tmp_path) == []


# Downloads, from a server of this machine.


def test_the_second_address_is_used_and_the_file_is_kept(coupon_at, server, tmp_path):
    server.offers["/second"] = COUPON
    coupon_at(f"{server.url}/first", f"{server.url}/second")
    found = load("coupon")
    assert server.asked == ["/first", "/second"]
    assert cached(tmp_path) == [tmp_path / "cache" / "datasets" / "coupon" / "coupon.csv"]
    assert np.array_equal(load("coupon").contexts, found.contexts)
    assert len(server.asked) == 2, "the second load needs no network"


def test_wrong_content_is_never_kept(coupon_at, server, tmp_path):
    server.offers["/one"] = altered = COUPON.replace(b"Snowy", b"Rainy")
    coupon_at(f"{server.url}/one", f"{server.url}/none")
    found = refusal("coupon")
    assert f"expected sha256 {sha256(COUPON)}" in found
    assert f"{server.url}/one delivered sha256 {sha256(altered)}" in found
    assert f"{server.url}/none answered 404" in found
    assert cached(tmp_path) == []


def test_wrong_content_at_one_address_leads_to_the_next(coupon_at, server):
    server.offers |= {"/one": b"<html>moved</html>", "/two": COUPON}
    coupon_at(f"{server.url}/one", f"{server.url}/two")
    assert len(load("coupon").labels) == 3


def test_a_damaged_cache_mends_itself(coupon_at, server, tmp_path):
    server.offers["/coupon.csv"] = COUPON
    coupon_at(f"{server.url}/coupon.csv")
    load("coupon")
    (path,) = cached(tmp_path)
    path.write_bytes(COUPON[:-9])
    load("coupon")
    assert path.read_bytes() == COUPON
    assert len(server.asked) == 2


def test_the_member_of_an_archive_is_what_counts(coupon_at, server, tmp_path):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("inside.csv", COUPON)
        packed.writestr("other.txt", "other")
    server.offers |= {"/good.zip": archive.getvalue(), "/bad.zip": b"no archive"}
    addresses = [
        Address(f"{server.url}/bad.zip", "inside.csv"),
        Address(f"{server.url}/good.zip", "absent.csv"),
    ]
    coupon_at(*addresses)
    found = refusal("coupon")
    assert "bad.zip is no archive with inside.csv" in found
    assert "good.zip is no archive with absent.csv" in found
    coupon_at(*addresses, Address(f"{server.url}/good.zip", "inside.csv"))
    assert len(load("coupon").labels) == 3
    assert [path.read_bytes() for path in cached(tmp_path)] == [COUPON]


def test_offline_one_sentence_names_the_data_set_and_the_remedy(coupon_at, tmp_path):
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as gone:
        url = f"http://127.0.0.1:{gone.server_port}/coupon.csv"
    coupon_at(url)
    found = refusal("coupon")
    assert found.startswith("coupon: cannot download coupon.csv")
    assert f"{url} cannot be reached" in found
    assert "HEADWAY_DATA_DIR or --data-dir" in found
    assert cached(tmp_path) == []


def test_a_cache_that_cannot_be_written_is_one_sentence(coupon_at, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADWAY_CACHE_DIR", str(tmp_path / "file"))
    coupon_at("http://127.0.0.1:9/coupon.csv")
    assert "choose another HEADWAY_CACHE_DIR" in refusal("coupon")


# Without the extra `data`.


def test_a_missing_extra_is_named_with_the_command_that_installs_it(tiny, coupon_at, monkeypatch):
    for module in ("pooch", "imblearn.over_sampling"):
        monkeypatch.setitem(sys.modules, module, None)
    assert len(load("mnist", data_dir=tiny).labels) == 6
    assert len(load("coupon", data_dir=tiny).labels) == 3
    found = refusal("heart", data_dir=tiny)
    assert "needs imbalanced-learn" in found
    assert "pip install 'headway[data]'" in found
    coupon_at("http://127.0.0.1:9/coupon.csv")
    found = refusal("coupon")
    assert "needs pooch" in found
    assert "pip install 'headway[data]'" in found


def test_the_heavy_packages_are_imported_where_they_are_used():
    code = (
        "import sys, headway.world.datasets; "
        "sys.exit(bool({'sklearn', 'imblearn', 'pooch', 'requests'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
