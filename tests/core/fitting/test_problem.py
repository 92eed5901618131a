"""What a fit is given: refusals, diagnoses in plain words, and loss and r2 by hand."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix

from slalom.core import Alternating, Joint, Linear, Sgd, Slalom, fit
from slalom.core.fitting.problem import Problem
from slalom.errors import InputError
from tests.cases import cases

EYE = np.eye(3)
Y = np.array([1.0, 2.0, 4.0])


def result(problem, model):
    return problem.fitted(model, converged=True, iterations=1)


# -- sparse counts --------------------------------------------------------------------------------------------


@cases("fitter", [Joint(), Sgd(), Alternating(), Linear()])
@cases("kind", [csr_array, csc_array, coo_array, csr_matrix])
def test_sparse_counts_make_no_difference(fitter, kind):
    rng = np.random.default_rng(0)
    counts = np.stack([np.isin(np.arange(20), rng.choice(20, 2, replace=False)) for _ in range(150)]).astype(int)
    counts[0, counts[0] > 0] = 3
    scores, weights = rng.normal(size=150), rng.integers(0, 3, 150)
    sparse = kind(counts)
    found, same = (fit(given, scores, fitter, weights) for given in (sparse, counts))
    np.testing.assert_array_equal(found.model(sparse), same.model(counts))
    assert (found.loss, found.r2, found.diagnosis) == (same.loss, same.r2, same.diagnosis)
    np.testing.assert_array_equal(sparse.toarray(), counts)


def test_sparse_counts_may_repeat_an_entry_and_hold_zeros():
    sparse = csr_array((np.array([1, 1, 0, 2]), np.array([1, 1, 0, 2]), np.array([0, 2, 4])), shape=(2, 3))
    problem = Problem.of(sparse, [1.0, 2.0], None)
    assert problem.counts.tolist() == [[0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]
    assert problem.table.nnz == 2
    assert sparse.nnz == 4
    assert problem.alike.tolist() == [True, False, False]
    assert not problem.empty_rows
    assert Problem.of(csr_array(np.array([[1, 0], [0, 0]])), [1.0, 2.0], None).empty_rows


SPARSE_REFUSED = {
    "negative": (csr_array(np.array([[0.0, 1.0], [-2.0, 0.0]])), "counts must not be negative; got -2.0 in row 1, column 0"),
    "infinite": (csr_array(np.array([[0.0, np.inf], [2.0, 0.0]])), r"counts must be finite; got inf at index \[0, 1\]"),
    "complex": (csr_array(np.array([[0.0, 1j], [2.0, 0.0]])), "counts must be an array of real numbers"),
    "no units": (csr_array((2, 0)), r"at least one row and one column; got shape \(2, 0\)"),
    "one row": (csr_array(np.array([[0.0, 1.0]])), r"one row for each of the 1 rows of counts; got shape \(2,\)"),
    "a vector": (coo_array(np.array([0.0, 1.0])), r"counts must have 2 dimension\(s\); got shape \(2,\)"),
}


@cases("name", SPARSE_REFUSED)
def test_sparse_counts_that_make_no_fit_are_refused_as_others_are(name):
    given, message = SPARSE_REFUSED[name]
    with pytest.raises(InputError, match=message):
        Problem.of(given, [1.0, 2.0], None)


# -- refusals ------------------------------------------------------------------------------------------------

REFUSED = {
    "counts a vector": ((Y, Y, None), r"counts must have 2 dimension\(s\); got shape \(3,\)"),
    "counts NaN": (([[np.nan, 1.0]], [1.0], None), r"counts must be finite; got nan at index \[0, 0\]"),
    "counts negative": (
        ([[1.0, -2.0]], [1.0], None),
        "counts must not be negative; got -2.0 in row 0, column 1",
    ),
    "no rows": ((np.zeros((0, 3)), [], None), r"at least one row and one column; got shape \(0, 3\)"),
    "no units": ((np.zeros((3, 0)), Y, None), r"at least one row and one column; got shape \(3, 0\)"),
    "scores too short": ((EYE, Y[:2], None), r"one row for each of the 3 rows of counts; got shape \(2,\)"),
    "scores NaN": ((EYE, [1.0, np.nan, 0.0], None), r"scores must be finite; got nan at index \[1\]"),
    "scores -inf": ((EYE, [[0.0, -np.inf]] * 3, None), r"scores must be finite; got -inf at index \[0, 1\]"),
    "scores 3-D": ((EYE, np.ones((3, 2, 2)), None), "scores must have 1 or 2 dimension"),
    "scores of one class": ((EYE, np.ones((3, 1)), None), "need >= 2 columns; .*pass a vector"),
    "a negative weight": ((EYE, Y, [1.0, -0.5, 1.0]), "3 numbers >= 0, not all of them 0; .*minimum -0.5"),
    "no weight": ((EYE, Y, np.zeros(3)), "3 numbers >= 0, not all of them 0"),
    "weights too short": ((EYE, Y, [1.0, 1.0]), r"weights must hold 3 numbers .*got shape \(2,\)"),
    "weights NaN": ((EYE, Y, [1.0, np.nan, 1.0]), "weights must be finite"),
}


@cases("name", REFUSED)
def test_data_that_make_no_fit_are_refused_in_one_line(name):
    arguments, match = REFUSED[name]
    with pytest.raises(InputError, match=match) as caught:
        Problem.of(*arguments)
    assert "\n" not in str(caught.value)


def test_data_are_kept_centred_over_classes_and_weights_with_mean_one():
    problem = Problem.of(EYE.tolist(), [[1, 2, 6], [0, 0, 3], [5, 5, 5]], [1, 2, 6])
    np.testing.assert_array_equal(problem.counts, EYE)
    np.testing.assert_allclose(problem.scores, [[-2, -1, 3], [-1, -1, 2], [0, 0, 0]], rtol=1e-15)
    np.testing.assert_allclose(problem.weights, [1 / 3, 2 / 3, 2.0], rtol=1e-15)


def test_the_callers_data_are_not_changed():
    counts, scores, weights = EYE.copy(), np.array([[1.0, 2.0]] * 3), np.array([1.0, 2.0, 6.0])
    Problem.of(counts, scores, weights)
    np.testing.assert_array_equal(counts, EYE)
    np.testing.assert_array_equal(scores, [[1.0, 2.0]] * 3)
    np.testing.assert_array_equal(weights, [1.0, 2.0, 6.0])


# -- loss and r2 ---------------------------------------------------------------------------------------------


def test_loss_and_r2_by_hand():
    problem = Problem.of(EYE, Y, None)
    found = result(problem, Slalom([1.0, 3.0, 2.0], np.zeros(3)))
    # residuals 0, 1, -2: 5 / 3; the scores around their mean 7 / 3: (16 + 1 + 25) / 9 / 3 = 14 / 9
    np.testing.assert_allclose(found.loss, 5 / 3, rtol=1e-15)
    np.testing.assert_allclose(found.r2, 1 - (5 / 3) / (14 / 9), rtol=1e-14)
    assert problem.loss(found.model) == found.loss


def test_loss_and_r2_by_hand_with_classes():
    scores = [[2.0, 0.0], [0.0, 4.0], [1.0, 1.0]]  # centred: (1, -1), (-2, 2), (0, 0)
    model = Slalom([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]], np.zeros(3))  # residuals 0, (1, -1), (1, -1)
    found = result(Problem.of(EYE, scores, [1.0, 1.0, 2.0]), model)
    # loss (0 + 2 + 2 * 2) / 4; mean (-1, 1) / 4; spread (2 * 25 / 16 + 2 * 49 / 16 + 2 * 2 / 16) / 4
    np.testing.assert_allclose(found.loss, 1.5, rtol=1e-15)
    np.testing.assert_allclose(found.r2, 1 - 1.5 / ((50 + 98 + 4) / 64), rtol=1e-14)


@cases("level", [0.0, 7.25, 1e9, 1e-9])
def test_constant_scores_are_explained_wholly_or_not_at_all(level):
    problem = Problem.of(EYE, np.full(3, level), None)
    assert result(problem, Slalom(np.full(3, level), np.zeros(3))).r2 == 1.0
    assert result(problem, Slalom(np.full(3, level + 0.5), np.zeros(3))).r2 == 0.0


def test_a_fit_that_did_not_converge_says_which_option_to_raise():
    problem, model = Problem.of(EYE, Y, None), Slalom(Y, np.zeros(3))
    late = problem.fitted(model, converged=False, iterations=7, limit="epochs", note="And a note.")
    assert late.diagnosis == "Not converged after 7 iterations; raise epochs. And a note."
    assert not late.converged
    assert late.iterations == 7
    assert result(problem, model).diagnosis == ""


# -- diagnosis -----------------------------------------------------------------------------------------------

ALIKE, CONSTANT = "All rows of counts are alike", "The scores are the same for every row"
PRIOR = ": their parameters are set by the prior alone"

DIAGNOSES = {
    "all is well": (EYE, Y, None, ""),
    "rows alike": (np.ones((3, 2)), Y, None, ALIKE),
    "one row": ([[1.0, 2.0]], [1.0], None, ALIKE),
    "rows with weight alike": ([[1, 2], [1, 2], [0, 1]], Y, [1, 1, 0], ALIKE),
    "constant scores": (EYE, np.full(3, 2.5), None, CONSTANT),
    "constant scores where there is weight": (EYE, [2.0, 2.0, 9.0], [1, 1, 0], CONSTANT),
    "one never": ([[1, 0, 1], [1, 0, 0], [0, 0, 2]], Y, None, f"Unit 1 is never present{PRIOR}"),
    "one never where there is weight": (EYE, Y, [1, 1, 0], f"Unit 2 is never present{PRIOR}"),
    "one always": (
        [[1, 1, 1], [1, 0, 0], [1, 0, 2]],
        Y,
        None,
        f"Unit 0 is present alike in every row{PRIOR}",
    ),
    "always, but not as often": ([[1, 1, 1], [2, 0, 0], [1, 0, 2]], Y, None, ""),
    "never and always": (
        [[0, 1, 1], [0, 1, 0], [0, 1, 2]],
        Y,
        None,
        f"Unit 0 is never present and Unit 1 is present alike in every row{PRIOR}",
    ),
    "many never": (
        np.hstack([EYE, np.zeros((3, 7))]),
        Y,
        None,
        f"7 units (3, 4, 5, 6, 7, ...) are never present{PRIOR}",
    ),
}


@cases("name", DIAGNOSES)
def test_what_the_data_cannot_say_is_said_in_plain_words(name):
    counts, scores, weights, beginning = DIAGNOSES[name]
    sentence = Problem.of(counts, scores, weights).undetermined()
    assert sentence.startswith(beginning)
    assert bool(sentence) == bool(beginning)


def test_a_unit_that_is_away_in_one_row_of_many_is_not_called_alike_in_every_row():
    rng = np.random.default_rng(0)
    counts = np.column_stack([np.ones(100), rng.integers(0, 2, 100), np.ones(100)])
    counts[17, 0] = 0.0
    assert Problem.of(counts, rng.normal(size=100), None).undetermined().startswith("Unit 2 is present alike in every row")
