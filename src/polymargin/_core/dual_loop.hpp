// Dual block-coordinate ascent: one row of duals at a time, solved exactly (row_problems.hpp). What makes it fast:
//   - classes that cannot matter leave a row's list, rows without a list rest (Keerthi et al. 2008; LIBLINEAR);
//   - rows that hardly violate their optimality conditions wait some epochs (adaptive coordinate frequencies,
//     Glasmachers & Dogan 2013);
//   - once the free duals are known, conjugate gradients on that face replace hundreds of epochs (face_step.hpp);
//   - each visit yields the row's duality gap for free; their sum tells when a true gap is worth a pass over the data.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "chunks.hpp"
#include "dual_state.hpp"
#include "face_step.hpp"
#include "random.hpp"
#include "row_problems.hpp"

namespace polymargin {

struct LoopSettings {
    bool waiting = true;       // let quiet rows wait
    int longest_wait = 31;     // epochs
    double face_from = 1e-3;   // relative gap from which face steps are tried
    int face_every = 20;       // epochs
    std::uint64_t seed = 0;
};

struct Progress {
    double estimate = infinity;  // sum of the rows' gaps as last seen
    std::int64_t epochs = 0;
    std::int64_t visits = 0;
};

template <class Rows, class Problem>
class DualLoop {
public:
    DualLoop(Rows rows, const Index* y, const double* cost, LoopSettings settings)
        : state_(rows, y, cost), settings_(settings), random_(settings.seed), face_(state_), n_(rows.n_rows()),
          c_(rows.n_classes()), row_gap_(n_, 0.0f), resting_(n_, 0), wait_(settings.waiting ? n_ : 0, 0), period_(wait_), classes_(c_ + 1),
          moved_(c_ + 1), parked_(c_ + 1), a_(c_ + 1), g_(padded(c_ + 1)), next_(c_ + 1), scratch_(c_ + 1),
          every_(padded(c_)), steps_(c_ + 1) {
        visits_.reserve(n_);
        if constexpr (has_class_scales<Problem>) state_.scales.assign(c_, 1.0);
        if constexpr (has_class_metric<Problem>) {
            state_.metric.P.assign(c_ * c_, 0.0);
            for (Size k = 0; k < c_; ++k) state_.metric.P[k * c_ + k] = 1.0;
            inner_.resize(padded(c_));
            ahead_.resize(padded(c_));
        }
        state_.squared = has_squared_loss<Problem>;
    }

    // Epochs until the estimated relative gap promises `tol`, or until `max_visits` more rows have been visited.
    void ascend(std::int64_t max_visits, double tol, const Poll& poll) {
        const double last_check = progress_.estimate;
        const std::int64_t stop = progress_.visits + max_visits;
        for (std::int64_t k = 0; progress_.visits < stop; ++k) {
            epoch(stop - progress_.visits, poll);
            const double estimate = progress_.estimate, scale = std::fabs(state_.dual + estimate);
            const bool fell = estimate <= 0.8 * last_check || k >= 20;
            // rows and classes at rest are not part of the estimate: ask for a little more than the tolerance
            if (fell && estimate <= 0.7 * tol * scale) break;
            if constexpr (!has_class_metric<Problem>) {  // a metric moves too often for it; see pair_face.py
                if (estimate <= settings_.face_from * scale && progress_.epochs % settings_.face_every == 0) {
                    // as much work as the epochs since the last face step, so that it can at worst double the cost
                    const auto since = static_cast<Size>(progress_.visits - visits_at_face_);
                    progress_.visits += static_cast<std::int64_t>(face_.step(since, poll));
                    visits_at_face_ = progress_.visits;
                }
            }
        }
    }

    // Every row looks at every class again.
    void restore() {
        for (Size i = 0; i < n_; ++i) {
            state_.duals.restore(i);
            resting_[i] = 0;
        }
        std::fill(wait_.begin(), wait_.end(), std::uint8_t{0});
        std::fill(period_.begin(), period_.end(), std::uint8_t{0});
        full_ = true;
    }

    // sum_i u_i loss_i at the current scores
    double loss(int n_threads, const Poll& poll) const {
        return sum_over_rows(
            n_, n_threads, poll, [&] { return std::vector<double>(padded(c_)); },
            [&](Size i, std::vector<double>& scores) {
                state_.weights.all_scores(i, scores.data());
                return state_.cost[i] * Problem::loss(scores.data(), c_, static_cast<Size>(state_.y[i]));
            });
    }

    DualState<Rows>& state() { return state_; }
    const DualState<Rows>& state() const { return state_; }
    const Progress& progress() const { return progress_; }

private:
    void epoch(std::int64_t max_visits, const Poll& poll) {
        double estimate = 0.0, violation_sum = 0.0, violation_max = 0.0;
        list_visits(estimate);
        // rows that do not fit the caches are fetched by fours: neighbours in memory come cheaper, and order enough is left
        random_.shuffle(visits_, state_.rows.bytes() > (Size{1} << 25) ? 4 : 1);
        if (static_cast<std::int64_t>(visits_.size()) > max_visits) visits_.resize(static_cast<Size>(max_visits));
        for (Size k = 0; k < visits_.size(); ++k) {
            if (k + 2 < visits_.size()) state_.duals.prefetch(visits_[k + 2]);
            if (k + 1 < visits_.size()) state_.rows.prefetch(visits_[k + 1]);
            if ((k & 63) == 0) poll();
            const Size i = visits_[k];
            if constexpr (reads_ahead) {
                if (k % 2 == 0) read_two(i, k + 1 < visits_.size() ? visits_[k + 1] : i);
            }
            const Assessment seen = visit(i);
            if constexpr (reads_ahead) {
                if (k % 2 == 0) std::swap(inner_, ahead_);
            }
            row_gap_[i] = static_cast<float>(seen.gap);
            estimate += seen.gap;
            violation_sum += seen.violation;
            violation_max = std::max(violation_max, seen.violation);
            if (settings_.waiting) set_waiting_time(i, seen.violation);
        }
        // an epoch in which all rows wait or rest still counts, so that the limit on visits ends every loop
        progress_.visits += std::max<std::int64_t>(1, static_cast<std::int64_t>(visits_.size()));
        progress_.epochs += 1;
        progress_.estimate = estimate;
        if (!visits_.empty()) quiet_level_ = violation_sum / static_cast<double>(visits_.size());
        threshold_ = violation_max;
        if (full_) full_estimate_ = estimate;
        full_ = false;
        if (estimate <= 0.1 * full_estimate_) restore();
    }

    void list_visits(double& estimate) {
        visits_.clear();
        for (Size i = 0; i < n_; ++i) {
            if (resting_[i]) continue;
            if (settings_.waiting && wait_[i] > 0) {
                --wait_[i];
                estimate += static_cast<double>(row_gap_[i]);
            } else {
                visits_.push_back(static_cast<std::uint32_t>(i));
            }
        }
    }

    void set_waiting_time(Size i, double violation) {
        const int longer = std::min(settings_.longest_wait, 2 * period_[i] + 1);
        period_[i] = violation < quiet_level_ ? static_cast<std::uint8_t>(longer) : std::uint8_t{0};
        wait_[i] = period_[i];
    }

    Assessment visit(Size i) {
        RowView row = look(i);
        const Assessment seen = Problem::assess(row, threshold_);
        resting_[i] = Problem::settled(row);
        if (seen.violation > 0.0) {
            if (row.count > widest_) narrow(row);
            Problem::solve(row);
            move(i, row);
        }
        store(i, row);
        return seen;
    }

    // With very many classes a row moves only its non-zero duals and the most violated classes: at the start all classes
    // tie, and n times c duals would come into being only to vanish again. Still an ascent step; the row goes on looking at
    // every class.
    void narrow(RowView& row) {
        order_.resize(row.count);
        for (Size k = 0; k < row.count; ++k) order_[k] = k;
        const auto first_zero = std::partition(order_.begin(), order_.end(), [&](Size k) { return row.a[k] > 0.0; });
        const auto nonzero = static_cast<Size>(first_zero - order_.begin());
        const Size kept = std::min(row.count, nonzero + widest_ / 2);
        std::nth_element(first_zero, order_.begin() + static_cast<std::ptrdiff_t>(kept), order_.end(),
                         [&](Size k, Size l) { return row.g[k] != row.g[l] ? row.g[k] > row.g[l] : k < l; });
        std::sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(kept));
        for (Size k = 0; k < kept; ++k) row.keep(k, order_[k]);
        row.count = kept;
        row.narrowed = true;
    }

    // Gathers the list of row i: classes, duals and g.
    RowView look(Size i) {
        const auto& slot = state_.duals.slot(i);
        const double* a = state_.duals.values(slot);
        RowView row{classes_.data(), a_.data(), g_.data(), next_.data(), scratch_.data(), 0, 0.0, state_.q[i], state_.cost[i],
                    slot.target_active, parked_.data(), 0, false};
        if constexpr (has_class_scales<Problem>) {
            row.scales = state_.scales.data();
            row.inverse_rho = state_.intercept.inverse_rho;
            row.target_curvature = row.curvature(state_.y[i]) + (state_.squared ? 0.5 / row.cost : 0.0);
        }
        if constexpr (has_class_metric<Problem>) {
            row.metric = state_.metric.P.data();
            row.n_classes = c_;
            row.y = static_cast<Size>(state_.y[i]);
        }
        if (slot.every) {
            look_at_every_class(i, slot, row);
            return row;
        }
        row.count = static_cast<Size>(slot.active);
        for (Index k = 0; k < slot.active; ++k) row.classes[k] = state_.duals.label(slot, k);
        std::copy_n(a, slot.active, row.a);
        for (Index k = slot.active; k < slot.count; ++k) row.parked_classes[row.n_parked++] = state_.duals.label(slot, k);
        const bool with_target = slot.target_active;
        const Size wanted = row.count + (with_target ? 1 : 0);
        row.classes[row.count] = state_.y[i];
        scores(i, row.classes, wanted, row.g);
        row.g_target = with_target ? row.g[row.count] - 1.0 : 0.0;
        return row;
    }

    void look_at_every_class(Size i, const DualRows::Slot& slot, RowView& row) {
        const Index y = state_.y[i];
        if constexpr (reads_ahead) {
            state_.weights.all_metric_scores(i, inner_.data(), every_.data());
        } else {
            state_.weights.all_scores(i, every_.data());
        }
        for (Index k = 0; k < static_cast<Index>(c_); ++k) {
            if (k == y) continue;
            row.classes[row.count] = k;
            row.a[row.count] = 0.0;
            row.g[row.count++] = every_[static_cast<Size>(k)];
        }
        const double* a = state_.duals.values(slot);
        for (Index k = 0; k < slot.count; ++k) {
            const Index label = state_.duals.label(slot, k);
            row.a[label - (label > y ? 1 : 0)] = a[k];
        }
        row.g_target = every_[static_cast<Size>(y)] - 1.0;
    }

    void scores(Size i, const Index* classes, Size count, double* out) {
        if constexpr (reads_ahead) {
            state_.weights.metric_scores(i, classes, count, inner_.data(), out);
        } else {
            state_.weights.scores(i, classes, count, out);
        }
    }

    // With a metric a row's scores take all class vectors. Two rows share one pass over them; the step of the first is added
    // to the inner products of the second when it is taken.
    void read_two(Size i, Size next) {
        state_.weights.inner_products(i, next, inner_.data(), ahead_.data());
        with_next_ = next == i ? 0.0 : state_.rows.dot_rows(i, next);
    }

    // Applies the step next - a to the weights and the dual value.
    void move(Size i, RowView& row) {
        Size m = 0;
        double target_step = 0.0, squares = 0.0, gain = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            const double step = row.next[k] - row.a[k];
            row.a[k] = row.next[k];
            if (step == 0.0) continue;
            moved_[m] = row.classes[k];
            steps_[m++] = -step;
            target_step += step;
            squares += step * step * curvature(row, row.classes[k]);
            gain += step * row.g[k];
        }
        if (row.target_active && target_step != 0.0) {
            moved_[m] = state_.y[i];
            steps_[m++] = target_step;
            squares += target_step * target_step * (has_class_scales<Problem> ? row.target_curvature : 1.0);
            gain -= target_step * row.g_target;
        }
        if constexpr (has_class_metric<Problem>) squares = metric_square(m);
        state_.dual += gain - 0.5 * (has_class_scales<Problem> ? 1.0 : row.q) * squares;
        state_.weights.add(i, moved_.data(), steps_.data(), m);
        if constexpr (reads_ahead) {
            for (Size k = 0; k < m; ++k) ahead_[static_cast<Size>(moved_[k])] += with_next_ * steps_[k];
        }
    }

    // steps' P steps of the first m steps
    double metric_square(Size m) const {
        double sum = 0.0;
        for (Size j = 0; j < m; ++j) {
            const double* column = state_.metric.P.data() + static_cast<Size>(moved_[j]) * c_;
            for (Size k = 0; k < m; ++k) sum += steps_[j] * steps_[k] * column[moved_[k]];
        }
        return sum;
    }

    // of a class, in units of q unless there are class scales
    static double curvature(const RowView& row, Index k) {
        if constexpr (has_class_scales<Problem>) return row.curvature(k);
        return 1.0;
    }

    // Writes the list back. A row looks at every class until enough have dropped to make a list pay.
    void store(Size i, const RowView& row) {
        const bool every = state_.duals.slot(i).every && (row.narrowed || row.count > longest_list());
        state_.duals.reserve(i, row.n_parked + (every ? row.count - zeros(row) : row.count));
        auto& slot = state_.duals.slot(i);
        Index m = 0;
        for (Size k = 0; k < row.count; ++k) {
            if (!every || row.a[k] != 0.0) state_.duals.set(slot, m++, row.classes[k], row.a[k]);
        }
        slot.count = m;
        for (Size k = 0; k < row.n_parked; ++k) state_.duals.set(slot, slot.count++, row.parked_classes[k], row.cost);
        slot.active = m;
        slot.every = every;
        slot.target_active = row.target_active;
    }

    Size longest_list() const { return c_ <= widest_ ? c_ - 2 : widest_; }

    static Size zeros(const RowView& row) {
        return static_cast<Size>(std::count(row.a, row.a + row.count, 0.0));
    }

    DualState<Rows> state_;
    LoopSettings settings_;
    Random random_;
    FaceStep<Rows, Problem> face_;
    Progress progress_;
    std::int64_t visits_at_face_ = 0;

    Size n_, c_;
    std::vector<float> row_gap_;
    std::vector<std::uint8_t> resting_, wait_, period_;
    std::vector<std::uint32_t> visits_;
    bool full_ = true;
    double full_estimate_ = infinity, quiet_level_ = 0.0, threshold_ = infinity;

    static constexpr Size widest_ = 64;  // classes a row moves at a time
    static constexpr bool reads_ahead = has_class_metric<Problem> && !Rows::sparse;

    // one row's workspace
    double with_next_ = 0.0;
    std::vector<double> inner_, ahead_;  // inner products of this row and of the next one with all class vectors
    std::vector<Size> order_;
    std::vector<Index> classes_, moved_, parked_;
    std::vector<double> a_, g_, next_, scratch_, every_, steps_;
};

}  // namespace polymargin
