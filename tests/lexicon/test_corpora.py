"""Corpora whose texts are explained with a lexicon: given, or learnt from the first texts."""

from functools import partial

import pytest

from slalom import Lexicon, corpus
from slalom.errors import InputError
from tests.lexicon.planted import Planted, explainer, lexicon, texts


def made(**options):
    return explainer(Planted(), queries=30, **options)


def priors(found):
    return {row["prior"] for batch in found.batches(["prior"]) for row in batch.to_pylist()}


def test_rows_say_which_lexicon_they_began_with(tmp_path):
    assert priors(corpus.run(texts(3, 7, length=12), tmp_path / "with", made(prior=lexicon()), progress=False)) == {
        lexicon().digest
    }
    assert priors(corpus.run(texts(3, 7, length=12), tmp_path / "without", made(), progress=False)) == {None}
    with pytest.raises(InputError, match="begun otherwise: options prior was"):
        corpus.run(texts(3, 7, length=12), tmp_path / "with", made(), progress=False)


@pytest.mark.parametrize("load", [made, partial(partial, made)], ids=["explainer", "function"])
def test_a_lexicon_is_learnt_from_the_first_texts(tmp_path, load):
    many = texts(15, 7, length=12)
    found = corpus.run(many, tmp_path / "out", load(), learn=11, progress=False, part_size=6)
    kept = Lexicon.load(tmp_path / "out" / "lexicon.parquet")
    assert kept.about["texts"] == 11
    assert kept.digest == Lexicon.learn(made(), many[:11]).digest
    assert priors(found) == {kept.digest}
    alone = made(prior=kept)(many[13])
    row = next(row for batch in found.batches(["number", "removal"]) for row in batch.to_pylist() if row["number"] == 13)
    assert row["removal"] == pytest.approx(alone.removal.tolist(), rel=1e-5, abs=1e-6)
    again = corpus.run(many, tmp_path / "out", load(), learn=11, progress=False, part_size=6)
    assert len(again) == 15
    (tmp_path / "out" / "parts").joinpath(sorted(p.name for p in (tmp_path / "out" / "parts").iterdir())[-1]).unlink()
    assert priors(corpus.run(many, tmp_path / "out", load(), learn=11, progress=False, part_size=6)) == {kept.digest}


def test_a_refused_run_leaves_the_folder_as_it_was(tmp_path):
    many, out = texts(14, 7, length=12), tmp_path / "out"
    corpus.run(many, out, made(), progress=False)
    for options in ({"learn": 12}, {"learn": 12, "explainer": made(prior=lexicon())}):
        with pytest.raises(InputError, match="learn was"):
            corpus.run(many, out, options.pop("explainer", made()), progress=False, **options)
    assert len(corpus.run(many, out, made(), progress=False)) == 14
    faults = {"needs method=joint": {"method": "ridge"}, "one target": {"target": "all"}, "got both": {"prior": lexicon()}}
    for message, wrong in faults.items():
        with pytest.raises(InputError, match=message):
            corpus.run(many, tmp_path / "other", made(**wrong), learn=12, progress=False)
    assert not (tmp_path / "other" / "lexicon.parquet").exists()
    corpus.run(many, tmp_path / "learnt", made(), learn=12, progress=False)
    with pytest.raises(InputError, match="learn was 12"):
        corpus.run(many, tmp_path / "learnt", made(), learn=13, progress=False)


def test_no_more_texts_are_learnt_than_explained(tmp_path):
    corpus.run(texts(16, 7, length=12), tmp_path / "out", made(), learn=15, limit=11, progress=False)
    assert Lexicon.load(tmp_path / "out" / "lexicon.parquet").about["texts"] == 11


def test_what_cannot_be_learnt_is_refused(tmp_path):
    with pytest.raises(InputError, match="an iterator can be read once"):
        corpus.run(iter(texts(20)), tmp_path / "out", made(), learn=12, progress=False)
    with pytest.raises(InputError, match="learn must be"):
        corpus.run(texts(20), tmp_path / "out", made(), learn=3, progress=False)
    assert not (tmp_path / "out").exists()
