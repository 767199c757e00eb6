// One row of the dual while it is visited, and what a domain says about it.
//
// Row i of class y has duals a_l for the classes l != y and the cost u = C v_i. Its share of the dual is
//
//   sum_l a_l (g_l - g_y) - 1/2 tau' H tau,    tau_y = sum_l a_l,  tau_l = -a_l,    g_l = s_l,  g_y = s_y - 1,
//
// with scores s that leave out the row's own contribution and the row's block H of the metric (metrics/). (The margin 1 is
// taken from the own class, not added to the others: their differences must survive when scores are many orders below 1.)
// Margins that should reach delta_l instead of 1 have g_l = s_l + (delta_l - 1).
//
// Absolute margins, s_y and -s_l, have g_y = delta_y - s_y and g_l = delta_l + s_l, their violations, and
//
//   sum_k a_k g_k - 1/2 tau' H tau,    tau_y = a_y,  tau_l = -a_l,
//
// with the own class in the list like any other, and g_target = 0: the price of what a simplex does not hand out.
//
// The machines differ in the domain of a. A domain is a small value, the class TopK of the header domains/top_k.hpp for instance,
// with
//
//   absolute  whether its margins are; margins.hpp has the two kinds
//   loss      sup over the domain of <a, margins> per unit of cost, at given scores; at given violations if absolute
//   assess    the row's duality gap and largest violation; drops classes that cannot matter from the list
//   settled   nothing is left in the list that could move
//   solve     the row's duals, solved for exactly in a metric: in the identity, and in others that it knows (solve_in.hpp)
//   room      the largest t <= 1 for which t * a stays in the domain
//   squares   what a squared loss adds to the dual's quadratic: `square` / (4 u). Slopes g are without it
//   separate  each dual has bounds of its own: they meet in the metric at most
//   fewest    classes a narrowed list must hold beside the non-zero duals for the row to be able to move
//   own_level optional, where the gap is that of the highest class: a class without a dual matters if it is not below all that have
//             one, nor below this level of the own class, given the sum of the duals. `of_highest` says that it is there
//   has_faces, is_free, is_closed, project      what a face step needs (faces/face_step.hpp); optional
//
// and a constructor from parameters and the number of classes if it has any. Python opens it by the name of its header; loops in
// all metrics, on kernels, and what the tests ask are made of it by themselves (catalogue/domain_of.hpp).
#pragma once

#include <algorithm>
#include <cmath>

#include "lanes.hpp"
#include "rows/basics.hpp"

namespace polymargin {

// Duals of one row, in any order.
struct RowDuals {
    const Index* classes;
    const double* a;
    Size count;
    Index y;
    double cost;

    bool is_own(Size k) const { return classes[k] == y; }
    double sum() const { return sum_of(a, count); }
    double largest() const {
        double highest = 0.0;
        for (Size k = 0; k < count; ++k) highest = std::max(highest, a[k]);
        return highest;
    }
};

// The square that a squared loss adds: none, (sum_l a_l)^2, sum_l a_l^2 / (weight of l), or that of the domain's gauge.
enum class Squares { none, of_sum, of_each, of_gauge };

// Entries [0, count) are the classes the row looks at, with their duals and scores; scores include the row's own contribution.
struct RowList {
    Index* classes;   // room for one more
    double* a;
    double* g;
    double* next;     // solve() writes the new duals here
    double* scratch;  // count + 1 doubles
    Size count;
    double g_target;  // of the own class
    bool narrowed;    // the list holds only some of the classes the row looks at

    void keep(Size to, Size from) {
        classes[to] = classes[from];
        a[to] = a[from];
        g[to] = g[from];
    }
    double sum() const { return sum_of(a, count); }
    // the highest of some values, four at a time; minus infinity if there are none
    static double highest_of(const double* values, Size count) {
        double best[4] = {-infinity, -infinity, -infinity, -infinity};
        Size k = 0;
        for (; k + 4 <= count; k += 4) {
            for (Size u = 0; u < 4; ++u) best[u] = best[u] < values[k + u] ? values[k + u] : best[u];
        }
        for (; k < count; ++k) best[0] = std::max(best[0], values[k]);
        return std::max(std::max(best[0], best[1]), std::max(best[2], best[3]));
    }
    double highest_g() const { return highest_of(g, count); }
    // position of the highest g; 0 for an empty list
    Size highest() const {
        Size best = 0;
        for (Size k = 0; k < count; ++k) {
            if (g[k] > g[best]) best = k;
        }
        return best;
    }
};

struct RowView : RowList {
    double cost;
    Index y;
    bool target_active;     // the dual of the row's own class (sum_l a_l) may still change
    Index* parked_classes;  // classes outside the list, and their duals, which sit at upper bounds
    double* parked_duals;
    Size n_parked;

    void park(Index k, double dual) {
        parked_classes[n_parked] = k;
        parked_duals[n_parked++] = dual;
    }
    // Entries whose value in `scratch` is above this leave the list; those with a dual are parked.
    void drop_above(double level) {
        Size kept = 0;
        for (Size k = 0; k < count; ++k) {  // without a branch
            const bool drops = scratch[k] > level;
            parked_classes[n_parked] = classes[k];
            parked_duals[n_parked] = a[k];
            n_parked += drops & (a[k] > 0.0);
            keep(kept, k);
            kept += !drops;
        }
        count = kept;
    }
    double parked_sum() const { return static_cast<double>(n_parked) * cost; }
    Size position_of_own() const { return static_cast<Size>(std::find(classes, classes + count, y) - classes); }  // count if it is not listed
    RowDuals at(const double* duals) const { return {classes, duals, count, y, cost}; }
};

struct Assessment {
    double gap, violation;
};

}  // namespace polymargin
