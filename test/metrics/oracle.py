#!/usr/bin/env python3
"""Compares the metrics with scikit-learn's, on the random cases that cases.cpp writes.

    oracle.py FOLDER    exits 1 and names each quantity that differs, or that is not compared

Each quantity is also changed a little, and must then be found to differ.
"""

import pathlib
import sys
import warnings

import numpy as np
import sklearn
from safetensors.numpy import load_file
from scipy.special import expit, log_softmax, softmax
from sklearn import metrics as sk

TOLERANCE = 1e-12
AVERAGES = ("micro", "macro", "weighted")
SCORES = {"precision": sk.precision_score, "recall": sk.recall_score, "f1": sk.f1_score,
          "iou": sk.jaccard_score}
CURVES = {"auroc": sk.roc_auc_score, "ap": sk.average_precision_score}
INPUTS = {"outputs", "target", "ignore_index", "dim", "from_logits", "threshold", "thresholds",
          "classes"}


def mean(values):
    """The mean without NaN, which is NaN of nothing."""
    values = [v for v in values if not np.isnan(v)]
    return np.mean(values) if values else np.nan


def counted(case):
    return case["target"] != case["ignore_index"]


def score_of_label(score, y, p):
    """A score of labels 0 and 1, or NaN if 1 does not occur."""
    return score(y, p, zero_division=0) if (y == 1).any() or (p == 1).any() else np.nan


def multiclass_scores(y, p, classes, names=tuple(SCORES)):
    there = np.isin(np.arange(classes), np.concatenate([y, p]))
    for name in names:
        for average in AVERAGES:
            yield f"{name}.{average}", SCORES[name](y, p, average=average, zero_division=0)
        each = SCORES[name](y, p, average=None, labels=np.arange(classes), zero_division=0)
        yield f"{name}.macro.each", np.where(there, each, np.nan)


def confusion(y, p, classes):
    counts = sk.confusion_matrix(y, p, labels=np.arange(classes))
    for name in ("none", "true", "pred", "all"):
        normalize = None if name == "none" else name
        cells = sk.confusion_matrix(y, p, labels=np.arange(classes), normalize=normalize)
        axis = {"true": 1, "pred": 0}.get(name)
        if axis is not None:  # where scikit-learn has 0, 0 / 0 is NaN here
            cells = np.where(counts.sum(axis, keepdims=True) > 0, cells, np.nan)
        yield f"confusion.{name}.each", cells.reshape(-1)


def curves(columns, bins):
    """Yields both areas of all columns, each (positive, score, probability); with bins as well."""
    for suffix, scores in (("", [(y, s) for y, s, _ in columns]),
                           (".bins", [(y, np.floor(p * (bins - 1))) for y, _, p in columns])):
        for name, area in CURVES.items():
            is_defined = (lambda y: y.any() and not y.all()) if name == "auroc" else np.any
            each = [area(y, s) if is_defined(y) else np.nan for y, s in scores]
            yield name + suffix, mean(each)
            yield name + suffix + ".each", each


def multiclass(case):
    scores = np.moveaxis(case["outputs"], int(case["dim"]), -1)
    scores, keep = scores.reshape(-1, scores.shape[-1]), counted(case).reshape(-1)
    scores, y = scores[keep], case["target"].reshape(-1)[keep]
    classes, p = scores.shape[1], scores.argmax(1)
    yield from multiclass_scores(y, p, classes)
    yield from confusion(y, p, classes)
    logits = case["from_logits"] == 1
    ordered = log_softmax(scores, axis=1) if logits else scores
    probabilities = softmax(scores, axis=1) if logits else scores
    columns = [(y == c, ordered[:, c], probabilities[:, c]) for c in range(classes)]
    yield from curves(columns, case["thresholds"])
    if not logits and set(y) == set(range(classes)):
        yield "auroc", sk.roc_auc_score(y, scores, multi_class="ovr", average="macro")
    # scikit-learn takes the last of equal scores, so all are reversed.
    for k in (k for k in range(1, classes) if f"top.{k}" in case):
        yield f"top.{k}", sk.top_k_accuracy_score(
            classes - 1 - y, scores[:, ::-1], k=k, labels=np.arange(classes))
    if logits:
        yield "perplexity", np.exp(sk.log_loss(y, probabilities, labels=np.arange(classes)))


def read_labels(case):
    """(targets, scores, probabilities, predictions) of labels."""
    logits = case["from_logits"] == 1
    x, cut = case["outputs"], case["threshold"]
    probabilities = expit(x) if logits else x
    predicted = x > (np.log(cut / (1 - cut)) if logits else cut)
    return case["target"].astype(int), x, probabilities, predicted.astype(int)


def binary(case):
    shape, keep = case["target"].shape, counted(case)
    y, x, probabilities, p = (part.reshape(shape)[keep] for part in read_labels(case))
    for name, score in SCORES.items():
        value = score_of_label(score, y, p)
        yield from ((f"{name}.{average}", value) for average in AVERAGES)
        yield f"{name}.macro.each", [value]
    yield from confusion(y, p, 2)
    yield from curves([(y == 1, x, probabilities)], case["thresholds"])


def multilabel(case):
    labels, keep = range(case["target"].shape[1]), counted(case)
    y, x, probabilities, p = ([part[:, c][keep[:, c]] for c in labels]
                              for part in read_labels(case))
    weights = np.array([part.sum() for part in y])
    for name, score in SCORES.items():
        each = np.array([score_of_label(score, *label) for label in zip(y, p)])
        yield f"{name}.macro", mean(each)
        yield f"{name}.macro.each", each
        yield f"{name}.micro", score_of_label(score, np.concatenate(y), np.concatenate(p))
        there = ~np.isnan(each)
        yield f"{name}.weighted", (np.average(each[there], weights=weights[there])
                                   if weights.any() else np.nan)
        if keep.all() and there.any():  # scikit-learn's own averages, over the labels that occur
            flat = [np.stack(part, -1)[:, there] if np.ndim(part[0]) else None for part in (y, p)]
            if there.sum() > 1:
                yield f"{name}.macro", score(*flat, average="macro", zero_division=0)
    columns = [(y[c] == 1, x[c], probabilities[c]) for c in labels]
    yield from curves(columns, case["thresholds"])


def segmentation(case):
    keep = counted(case)
    yield from multiclass_scores(case["target"][keep], case["outputs"][keep],
                                 int(case["classes"]), ("iou",))


def regression(case):
    y, p = case["target"], case["outputs"]
    yield "mae", sk.mean_absolute_error(y, p)
    yield "mse", sk.mean_squared_error(y, p)
    yield "rmse", np.sqrt(sk.mean_squared_error(y, p))
    varies = np.atleast_1d(np.ptp(y, axis=0) > 0)
    each = sk.r2_score(y, p, multioutput="raw_values", force_finite=False)
    each = np.where(varies, each, np.nan)
    yield "r2", mean(each)
    yield "r2.each", each
    columns = (y, p) if y.ndim == 1 else (y[:, varies], p[:, varies])
    yield "r2.weighted", sk.r2_score(*columns, multioutput="variance_weighted")
    yield "r2.weighted.each", None


TASKS = {f.__name__: f for f in (multiclass, binary, multilabel, segmentation, regression)}


def same(got, expected):
    got, expected = np.asarray(got, float), np.asarray(expected, float)
    return got.shape == expected.shape and np.allclose(got, expected, rtol=TOLERANCE,
                                                       atol=TOLERANCE, equal_nan=True)


def read_cases(path):
    cases = {}
    for name, value in load_file(path).items():
        case, quantity = name.split("/")
        cases.setdefault(case, {})[quantity] = value
    return cases


def differences(name, case):
    """Texts about quantities that differ, that are not computed here, or that cannot differ."""
    compared = set()
    for quantity, expected in TASKS[name.split(".")[0]](case):
        if quantity not in case:
            continue
        compared.add(quantity)
        got = case[quantity]
        if not same(got, expected):
            yield f"{name}: {quantity} is {got}, scikit-learn has {expected}"
        if not np.isnan(got).all() and same(got + 1e-9, expected):
            yield f"{name}: {quantity} would not be found to differ"
    yield from (f"{name}: {quantity} is not compared"
                for quantity in set(case) - compared - INPUTS)


def main(folder):
    cases = read_cases(pathlib.Path(folder) / "metrics.safetensors")
    found = [text for name, case in cases.items() for text in differences(name, case)]
    print(*found, f"{len(cases)} cases, {len(found)} differences", sep="\n")
    return bool(found) or len(cases) < 120


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sklearn.set_config(assume_finite=True, skip_parameter_validation=True)  # twice as fast
    sys.exit(main(*sys.argv[1:]))
