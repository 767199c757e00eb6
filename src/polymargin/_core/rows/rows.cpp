// The kernels of all storages, compiled once.
#include "rows.hpp"

#include <stdexcept>

namespace polymargin {
namespace {

template <class Stored>
void scores_of(const Rows::Storage& stored, const double* V, Size i, const Index* classes, Size count, double* out,
               double* every) {
    std::get_if<Stored>(&stored)->scores(V, i, classes, count, out, every);
}

template <class Stored>
void all_scores_of(const Rows::Storage& stored, const double* V, Size i, double* out) {
    std::get_if<Stored>(&stored)->all_scores(V, i, out);
}

template <class Stored>
void add_to(const Rows::Storage& stored, double* V, Size i, const Index* classes, const double* steps, Size count,
            double* every) {
    std::get_if<Stored>(&stored)->add(V, i, classes, steps, count, every);
}

}  // namespace

double Rows::squared_norm(Size i) const {
    // steps divide by it, times a scale of a class: what has no inverse moves nothing that can be seen
    constexpr double smallest = 1e-290;
    const double square = std::visit([&](const auto& rows) { return rows.squared_norm(i); }, stored_);
    return square < smallest ? 0.0 : square;
}

double Rows::dot_dense(Size i, const double* vector) const {
    return std::visit([&](const auto& rows) { return rows.dot_dense(i, vector); }, stored_);
}

void Rows::add_to_dense(Size i, double step, double* vector) const {
    std::visit([&](const auto& rows) { rows.add_to_dense(i, step, vector); }, stored_);
}

void Rows::prefetch_sparse(Size i) const {
    std::visit([&](const auto& rows) { rows.prefetch(i); }, stored_);
}

void Rows::copy(Size i, double* out) const {
    std::visit([&](const auto& rows) { rows.copy(i, out); }, stored_);
}

Rows::Kernels Rows::kernels_of(const Storage& stored) {
    return std::visit(
        [](const auto& rows) -> Kernels {
            using Stored = std::decay_t<decltype(rows)>;
            return {scores_of<Stored>, all_scores_of<Stored>, add_to<Stored>};
        },
        stored);
}

void Rows::scores_of_rows(const double* V, const Size* rows, Size count, Size first, Size last, double* const* out) const {
    std::visit(
        [&](const auto& stored) {
            if constexpr (std::decay_t<decltype(stored)>::sparse) {
                for (Size r = 0; r < count; ++r) stored.all_scores(V, rows[r], out[r]);
            } else {
                stored.scores_of_rows(V, rows, count, first, last, out);
            }
        },
        stored_);
}

void Rows::add_squares(const double* V, double* out) const {
    std::visit([&](const auto& rows) { rows.add_squares(V, out); }, stored_);
}

Columns Rows::columns(Size i) const {
    return std::visit(
        [&](const auto& rows) -> Columns {
            if constexpr (std::decay_t<decltype(rows)>::sparse) {
                return {rows.columns(i), rows.n_stored(i)};
            } else {
                throw std::logic_error("dense rows have no stored columns");
            }
        },
        stored_);
}

double Rows::dot_rows(Size i, Size j) const {
    return std::visit(
        [&](const auto& rows) -> double {
            if constexpr (std::decay_t<decltype(rows)>::sparse) {
                throw std::logic_error("sparse rows are read one by one");
            } else {
                return rows.dot_rows(i, j);
            }
        },
        stored_);
}

}  // namespace polymargin
