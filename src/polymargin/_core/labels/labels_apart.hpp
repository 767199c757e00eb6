// Binary machines for all labels, each of its own, several threads at a time: a label's result depends on nothing else.
#pragma once

#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "one_label.hpp"

namespace polymargin {

// Entries label by label: those of label k are `starts[k]` to `starts[k + 1]`. The arrays are borrowed.
template <class Value>
struct ByLabel {
    const std::int64_t* starts;
    const Index* rows;
    const Value* values;
};

struct LabelTargets {
    ByLabel<std::int8_t> signs;
    std::int8_t others;         // the sign of all other rows: -1, or 0 if they are unknown
    const double* row_costs;    // u_ik = row_costs_i label_costs_k
    const double* label_costs;
};

struct Limits {
    double tol;
    std::int64_t max_visits;  // of one label
    int n_threads;
    bool squared;  // hinges
    std::uint64_t seed;
};

struct LabelsEnd {
    std::vector<double> W;  // (n_labels, d)
    std::vector<LabelEnd> ends;
    std::vector<std::vector<Index>> dual_rows;
    std::vector<std::vector<double>> duals;
};

// `labels` are the numbers of those to solve; starting duals and offsets are theirs, in that order. Duals are signed: a_i t_i.
inline LabelsEnd solve_labels(const LabelRows& data, const LabelTargets& targets, const std::vector<Index>& labels,
                              ByLabel<double> start, const double* offsets, Limits limits, const Poll& poll) {
    const Size n = data.rows.n_rows(), d = data.rows.n_features();
    LabelsEnd out{std::vector<double>(labels.size() * d), std::vector<LabelEnd>(labels.size()),
                  std::vector<std::vector<Index>>(labels.size()), std::vector<std::vector<double>>(labels.size())};
    std::atomic<Size> next{0};
    auto work = [&](const Poll& polls) {
        OneLabel machine(data, limits.squared);
        std::vector<std::int8_t> signs(n);
        std::vector<double> costs(n), a(n);
        for (Size j; (j = next++) < labels.size();) {
            const auto k = static_cast<Size>(labels[j]);
            std::fill(signs.begin(), signs.end(), targets.others);
            for (auto p = targets.signs.starts[k]; p < targets.signs.starts[k + 1]; ++p) {
                signs[static_cast<Size>(targets.signs.rows[p])] = targets.signs.values[p];
            }
            for (Size i = 0; i < n; ++i) costs[i] = targets.row_costs[i] * targets.label_costs[k];
            std::fill(a.begin(), a.end(), 0.0);
            for (auto p = start.starts[j]; p < start.starts[j + 1]; ++p) a[static_cast<Size>(start.rows[p])] = std::fabs(start.values[p]);
            out.ends[j] = machine.solve(signs.data(), costs.data(), a.data(), offsets[j], out.W.data() + j * d, limits.tol,
                                        limits.max_visits, limits.seed + k, polls);
            for (Size i = 0; i < n; ++i) {
                if (a[i] == 0.0) continue;
                out.dual_rows[j].push_back(static_cast<Index>(i));
                out.duals[j].push_back(a[i] * signs[i]);
            }
        }
    };
    std::atomic<bool> stopped{false};
    struct Stopped {};
    const Poll stops = [&] {
        if (stopped) throw Stopped{};
    };
    std::vector<std::thread> workers;
    auto join = [&] {
        for (auto& worker : workers) worker.join();
    };
    try {
        for (int t = 1; t < limits.n_threads; ++t) {
            workers.emplace_back([&] {
                try {
                    work(stops);
                } catch (const Stopped&) {
                }
            });
        }
        work(poll);
    } catch (...) {
        stopped = true;
        join();
        throw;
    }
    join();
    return out;
}

}  // namespace polymargin
