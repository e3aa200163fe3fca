#pragma once
// Metrics for `Trainer::evaluate` and the validation of `fit`: docs/metrics.md. `ikebana.hpp` has
// Accuracy alone.
#include <ikebana/metrics/class_score.hpp>
#include <ikebana/metrics/confusion_matrix.hpp>
#include <ikebana/metrics/curve_metric.hpp>
#include <ikebana/metrics/mean_absolute_error.hpp>
#include <ikebana/metrics/mean_squared_error.hpp>
#include <ikebana/metrics/output_transform.hpp>
#include <ikebana/metrics/perplexity.hpp>
#include <ikebana/metrics/r2_score.hpp>
#include <ikebana/metrics/tasks.hpp>
#include <ikebana/metrics/top_k_accuracy.hpp>
