// A damped Newton step of the dual on the face of the free duals.
//
// Once most duals sit at their bounds, coordinate ascent spends its time on the few that do not. They obey a linear system,
//
//   (H + lambda B) p = r,    H p = slopes of the machine sum_i x_i tau_i(p)',   B its diagonal blocks,   r the slopes now,
//
// solved by conjugate gradients preconditioned with B, which one row inverts in closed form. A row is open if its own class
// moves too (slope g_l - g_y, block q (I + 11')) and closed if its duals must keep their sum (slope g_l minus the mean, block
// q I). Absolute margins of open rows do not meet (slope g_k, block q I). Squared losses add to slopes and blocks. The damping keeps the step inside the region where the face stays the face: without it the projection onto the
// polytope clips most of the step. The projected step is applied with an exact line search, so the dual never falls.
//
// Where the unknowns of the machine are few and rows are many, the same system is solved directly, in the unknowns (unknowns.hpp): H is
// Z Z' with as few columns as there are unknowns, and with D, the damping and what a squared loss adds, a block a row,
//
//   p = D^-1 (r - Z u),    (I + Z' D^-1 Z) u = Z' D^-1 r.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "machine/dual_state.hpp"
#include "unknowns.hpp"

namespace polymargin {

// The linear system of a face and the step that follows from it, whatever the domain.
class FaceSystem {
protected:
    struct FaceRow {
        Size row, begin, end;  // entries [begin, end)
        bool closed;
        double held;  // sum of the row's duals at bounds
    };

    explicit FaceSystem(DualState& state) : state_(state) {}

    void clear();
    void allot();  // room for the rows and classes that are listed

    // x = the Newton step of the listed duals: by conjugate gradients, or in the unknowns, unless rounding forbids it
    void solve(Size iterations, const Poll& poll);
    bool solve_in_unknowns(const Poll& poll);
    Size visits_in_unknowns();  // about as much work as so many visits of rows

    // Takes x, with an exact line search.
    void apply(const Poll& poll);

    DualState& state_;
    std::vector<FaceRow> rows_;
    std::vector<Index> classes_;
    std::vector<Size> position_;  // of each free dual in the arena
    std::vector<double> x_, moved_, scratch_;

private:
    // D^-1 of a row: diag(e) - theta e e', e in z_
    double invert_own_block(const FaceRow& f);
    bool has_theta(const FaceRow& f) const { return f.closed || state_.rules.squares == Squares::of_sum; }
    void add_to_unknowns(const FaceRow& f, double theta);
    double sign(const FaceRow& f, Size k) const { return classes_[k] == state_.y[f.row] ? 1.0 : -1.0; }
    bool moves_own(const FaceRow& f) const { return !f.closed && !state_.rules.absolute; }

    void first_slopes(const Poll& poll);
    void slopes_of(Weights& weights, double margin, std::vector<double>& out, const Poll& poll);
    void machine_of(const std::vector<double>& p, const Poll& poll);
    void subtract_own_slopes(const std::vector<double>& p, std::vector<double>& slopes) const;
    double own_curvature(const std::vector<double>& p) const;
    double sum_curvature(Size i) const;           // that a squared sum adds to the block: times 11'
    double each_curvature(Size i, Index k) const;  // that a sum of squares adds to the diagonal
    double curvature(Size i, Index k) const;
    void any_blocks(const std::vector<double>& p, std::vector<double>& out, bool inverse) const;
    void blocks(const std::vector<double>& p, std::vector<double>& out, bool inverse) const;
    void conjugate_gradients(Size iterations, const Poll& poll);

    std::unique_ptr<Weights> direction_;
    std::unique_ptr<Unknowns> unknowns_;
    double damping_ = 0.01;
    std::vector<Index> listed_;
    std::vector<double> r_, p_, z_, hp_, gradient_, scores_;
};

template <class Domain>
class FaceStep : FaceSystem {
public:
    FaceStep(const Domain& domain, DualState& state) : FaceSystem(state), domain_(domain) {}

    // Whether the unknowns are few.
    bool is_direct() const { return Unknowns::fit(state_); }

    // In the unknowns, if that takes at most about `budget` visits of rows; returns how many it took.
    Size direct_step(Size budget, const Poll& poll) {
        identify();
        const Size work = rows_.empty() ? 0 : visits_in_unknowns();
        if (work == 0 || work > budget || !solve_in_unknowns(poll)) return 0;
        project();
        apply(poll);
        return work;
    }

    // Spends at most about `budget` visits of rows; returns how many it took.
    Size step(Size budget, const Poll& poll) {
        identify();
        if (rows_.empty()) return 0;
        const Size iterations = std::min<Size>(max_iterations, budget / (2 * rows_.size()));
        if (iterations < min_iterations) return 0;
        solve(iterations, poll);
        project();
        apply(poll);
        return 2 * iterations * rows_.size();
    }

private:
    static constexpr Size max_iterations = 40, min_iterations = 4;

    // Lists the rows with room to move, their free classes and where their duals are stored.
    void identify() {
        clear();
        for (Size i = 0; i < state_.n_rows(); ++i) {
            const auto& slot = state_.duals.slot(i);
            const double* a = state_.duals.values(slot);
            double sum = 0.0;
            Size free = 0;
            for (Index k = 0; k < slot.count; ++k) {
                sum += a[k];
                free += is_free(i, slot, k);
            }
            const bool closed = domain_.is_closed(sum, state_.cost[i]);
            if (free < (closed ? 2u : 1u) || !(state_.q[i] > 0.0)) continue;
            const Size begin = classes_.size();
            for (Index k = 0; k < slot.count; ++k) {
                if (!is_free(i, slot, k)) continue;
                classes_.push_back(state_.duals.label(slot, k));
                position_.push_back(slot.start + static_cast<Size>(k));
            }
            double free_sum = 0.0;
            for (Size k = begin; k < position_.size(); ++k) free_sum += state_.duals.value_at(position_[k]);
            rows_.push_back({i, begin, classes_.size(), closed, std::max(0.0, sum - free_sum)});
        }
        allot();
    }

    bool is_free(Size i, const DualRows::Slot& slot, Index k) const {
        const bool own = Domain::absolute && state_.duals.label(slot, k) == state_.y[i];
        return domain_.is_free(state_.duals.values(slot)[k], state_.cost[i], own);
    }

    // x = projection of (a + x) - a; a row's other duals sit at bounds and stay there.
    void project() {
        for (const FaceRow& f : rows_) {
            const Size count = f.end - f.begin;
            for (Size k = f.begin; k < f.end; ++k) moved_[k] = state_.duals.value_at(position_[k]) + x_[k];
            double* moved = moved_.data() + f.begin;
            const RowDuals duals{classes_.data() + f.begin, moved, count, state_.y[f.row], state_.cost[f.row]};
            domain_.project(duals, f.closed, f.held, moved, scratch_.data());
            for (Size k = f.begin; k < f.end; ++k) x_[k] = moved_[k] - state_.duals.value_at(position_[k]);
        }
    }

    const Domain& domain_;
};

}  // namespace polymargin
