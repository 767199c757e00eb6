// The kernels of all storages, compiled once.
#include "rows.hpp"

#include <stdexcept>

#if defined(__GNUC__) || defined(__clang__)
#define PM_APART __attribute__((noinline))
#else
#define PM_APART
#endif

namespace polymargin {
namespace {

// The kernels that loops live on, each a function of its own: together in one they would share their registers.
template <class Stored>
PM_APART void scores_of(const Stored& rows, const double* V, Size i, const Index* classes, Size count, double* out,
                        double* every) {
    rows.scores(V, i, classes, count, out, every);
}

template <class Stored>
PM_APART void all_scores_of(const Stored& rows, const double* V, Size i, double* out) {
    rows.all_scores(V, i, out);
}

template <class Stored>
PM_APART void add_to(const Stored& rows, double* V, Size i, const Index* classes, const double* steps, Size count,
                     double* every) {
    rows.add(V, i, classes, steps, count, every);
}

template <class Storage, class Work>
void of_sparse(const Storage& stored, const Work& work) {
    std::visit(
        [&](const auto& rows) {
            if constexpr (std::decay_t<decltype(rows)>::sparse) {
                work(rows);
            } else {
                throw std::logic_error("dense rows have no stored columns");
            }
        },
        stored);
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

void Rows::scores(const double* V, Size i, const Index* classes, Size count, double* out, double* every) const {
    std::visit([&](const auto& rows) { scores_of(rows, V, i, classes, count, out, every); }, stored_);
}

void Rows::all_scores(const double* V, Size i, double* out) const {
    std::visit([&](const auto& rows) { all_scores_of(rows, V, i, out); }, stored_);
}

void Rows::add(double* V, Size i, const Index* classes, const double* steps, Size count, double* every) const {
    std::visit([&](const auto& rows) { add_to(rows, V, i, classes, steps, count, every); }, stored_);
}

void Rows::add_squares(const double* V, double* out) const {
    std::visit([&](const auto& rows) { rows.add_squares(V, out); }, stored_);
}

void Rows::add_between(double* V, Size i, Index first, Index last, const Index* classes, const double* steps, Size count,
                       double* every) const {
    of_sparse(stored_, [&](const auto& rows) { rows.add(V, i, first, last, classes, steps, count, every); });
}

Columns Rows::columns(Size i) const {
    Columns out{};
    of_sparse(stored_, [&](const auto& rows) { out = {rows.columns(i), rows.n_stored(i)}; });
    return out;
}

bool Rows::columns_ascend() const {
    bool ascend = true;
    of_sparse(stored_, [&](const auto& rows) { ascend = rows.columns_ascend(); });
    return ascend;
}

std::vector<Index> Rows::cuts(Size count) const {
    std::vector<Index> out;
    of_sparse(stored_, [&](const auto& rows) { out = rows.cuts(count); });
    return out;
}

void Rows::all_scores_of_two(const double* V, Size i, Size other, double* out, double* out_of_other) const {
    std::visit(
        [&](const auto& rows) {
            if constexpr (std::decay_t<decltype(rows)>::sparse) {
                throw std::logic_error("sparse rows are read one by one");
            } else {
                rows.all_scores(V, i, other, out, out_of_other);
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
