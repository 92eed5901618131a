"""The table of a corpus: its rows, its Parquet files, and what opens them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from slalom import Explainer, corpus
from slalom.corpus.folder import MANIFEST, Folder, part_name
from slalom.corpus.table import GIVEN, SourceRow, explained_row, failed_row, part_facts, schema, table
from slalom.errors import InputError
from slalom.result import listed
from tests.corpus.tables import write

TEXTS = ("a good film", "bad", "good good day, is it not")


def good(texts):
    return [2.0 * text.count("good") - text.count("bad") for text in texts]


@pytest.fixture(scope="module")
def explainer():
    return Explainer(good, output="log_odds", labels=["bad", "good"], queries=50)


def source_row(number, text, **given):
    return SourceRow(number, f"id{number}", text, given)


@pytest.fixture(scope="module")
def written(tmp_path_factory, explainer):
    """A corpus of two parts of two and three texts' places, one of them failed, in a folder."""
    rows = [
        explained_row(source_row(i, text, gold="good"), e, full=True)
        for i, (text, e) in enumerate(zip(TEXTS, explainer(TEXTS), strict=True))
    ]
    rows.append(failed_row(source_row(3, "", gold=None), "a text must have at least one word"))
    out = tmp_path_factory.mktemp("table") / "out"
    return write(out, rows, keep=("gold",), part=3, labels=("bad", "good"), model="good", full=True)


@pytest.fixture
def copied(tmp_path, written):
    return Path(shutil.copytree(written, tmp_path / "out"))


def test_rows_hold_what_the_explanations_say(written, explainer):
    rows = [row for batch in corpus.open(written).batches() for row in batch.to_pylist()]
    assert [row["number"] for row in rows] == [0, 1, 2, 3]
    for row, e in zip(rows, explainer(TEXTS), strict=False):
        assert (row["status"], row["error"], row["text"], row["given_gold"]) == ("explained", None, e.text, "good")
        assert (row["label"], row["target"], row["n_units"], tuple(row["units"])) == (e.label, e.target, len(e), e.units)
        assert row["score"] == e.score
        assert row["probability"] == np.float32(e.prediction[1])
        for name, array in (
            *((scored.score.name, scored.numbers) for scored in listed(e)),
            *((f"{scored.score.name}_se", scored.errors) for scored in listed(e)),
            ("probabilities", e.probabilities), ("starts", e.spans[:, 0]), ("ends", e.spans[:, 1]), ("sizes", e.sizes),
        ):  # fmt: skip
            if array is None:
                assert row[name] is None
            else:
                np.testing.assert_array_equal(row[name], array.astype(np.float32), name)
        assert (row["queries"], row["tokens"], tuple(row["remarks"])) == (e.queries, e.tokens, e.remarks)
        assert (row["far_mse"], row["near_r2"]) == tuple(
            None if q is None else getattr(q, name) for q, name in ((e.fidelity.far, "mse"), (e.fidelity.near, "r2"))
        )
        assert row["competition"] == e.competition
    last = rows[3]
    assert (last["status"], last["error"], last["text"]) == ("failed", "a text must have at least one word", "")
    assert all(last[name] is None for name in ("label", "score", "removal", "queries", "explanation"))


def test_whole_explanations_come_back(written, explainer):
    opened = corpus.open(written)
    assert (len(opened), opened.labels, opened.model, len(opened.parts)) == (4, ("bad", "good"), "good", 2)
    assert opened[2].text == TEXTS[2]
    np.testing.assert_array_equal(opened[2].removal, explainer(TEXTS[2]).removal)  # in the second row group
    with pytest.raises(InputError, match=r"text 3 was not explained \(failed\): a text must have"):
        opened[3]
    for number in (-1, 4, 6, 100):
        with pytest.raises(IndexError, match="which has 4 texts"):
            opened[number]
    for number in (slice(0, 2), "0", 1.0):
        with pytest.raises(InputError, match="a text is named by its number, from 0; got"):
            opened[number]


def test_columns_are_chosen_and_an_error_names_the_most_similar(written, tmp_path):
    batches = list(corpus.open(written).batches(["status", "score"]))
    assert [batch.schema.names for batch in batches] == [["status", "score"]] * len(batches)
    for column, message in (
        ("given_slice", r"kept the column 'slice' of its source; it has kept .*; .* --keep NAME"),
        ("scores", r"must have the column 'scores'; it has 'score', ('\w+', ){8}'\w+' and \d+ more; name"),
    ):
        with pytest.raises(InputError, match=message):
            list(corpus.open(written).batches([column]))


def test_others_read_the_parts(written):
    pandas, duckdb = map(pytest.importorskip, ("pandas", "duckdb"))
    frame = pandas.read_parquet(written / "parts")
    assert list(frame.columns) == schema(["gold"]).names
    assert frame["removal"][0].shape == (3,)
    query = f"SELECT count(*), sum(len(units)) FROM '{written}/parts/*.parquet' WHERE status = 'explained'"
    assert duckdb.sql(query).fetchall()[0][0] == 3
    facts = {"rows": 1, "digest": "digest 1", "explained": 0, "failed": 1, "killed": 0}
    assert part_facts(pq.ParquetFile(written / part_name(1))) == facts
    group = pq.read_metadata(written / part_name(0)).row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert "BYTE_STREAM_SPLIT" in columns["removal.list.element"].encodings


def test_texts_that_utf8_cannot_encode_keep_their_length():
    made = table([failed_row(SourceRow(0, "a\ud800", "x\udfffy", {"gold": "\ud800"}), "no")], ["gold"]).to_pylist()
    assert [made[0][name] for name in ("id", "text", GIVEN + "gold")] == ["a?", "x?y", "?"]


def test_a_damaged_part_is_named(copied):
    path = copied / part_name(1)
    path.write_bytes(path.read_bytes()[:100])
    for read in (lambda: list(corpus.open(copied).batches()), lambda: len(corpus.open(copied))):
        with pytest.raises(InputError, match=r"000001\.parquet' is damaged .*; the command that began the corpus explains"):
            read()


def test_a_folder_without_a_manifest_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"must be a folder that slalom corpus run has written; it has no manifest\.json"):
        corpus.open(tmp_path)
    (tmp_path / MANIFEST).write_text(json.dumps({"format": "slalom corpus", "version": 7}))
    with pytest.raises(InputError, match=r"has format \('slalom corpus', 7\); .* update slalom, or explain the texts again"):
        corpus.open(tmp_path)
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(InputError, match="is not a manifest"):
        corpus.open(tmp_path)


def test_whole_explanations_need_full(copied):
    manifest = json.loads((copied / MANIFEST).read_text()) | {"full": False}
    (copied / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="run again with --full"):
        corpus.open(copied)[0]


@pytest.mark.parametrize("address", ["memory://corpus-folder", "{}/local"])
def test_folders_write_read_list_and_remove(tmp_path, address):
    folder = Folder(address.format(tmp_path))
    assert (folder.read("manifest.json"), folder.parts()) == (None, [])
    folder.write("manifest.json", b"{}")
    folder.write(part_name(12), b"x")
    folder.write(part_name(3), b"y")
    folder.write(part_name(3), b"z")  # replaced as a whole
    folder.write("parts/3.parquet", b"a copy")  # no part
    assert (folder.read("manifest.json"), folder.read(part_name(3)), folder.parts()) == (b"{}", b"z", [3, 12])
    folder.remove(part_name(3))
    folder.remove(part_name(4))
    assert folder.parts() == [12]


def test_addresses_without_a_file_system_are_refused():
    with pytest.raises(InputError, match="must name a file system of pyarrow or fsspec"):
        Folder("gopher://example/corpus")


def test_remote_parts_are_read(tmp_path, written):
    remote = Folder("memory://corpus-copy")
    for name in (MANIFEST, part_name(0), part_name(1), "digests/000000.sha256", "digests/000001.sha256"):
        remote.write(name, (written / name).read_bytes())
    opened = corpus.open("memory://corpus-copy")
    assert (len(opened), opened[0].text, opened.parts[0]) == (4, TEXTS[0], "memory://corpus-copy/parts/000000.parquet")
    assert sum(batch.num_rows for batch in opened.batches(["id"])) == 4
