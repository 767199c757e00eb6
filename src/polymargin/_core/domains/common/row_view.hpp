// One row of the dual while it is visited, and what a domain says about it.
//
// Row i of class y has duals a_l for the classes l != y and the cost u = C v_i. Its share of the dual is
//
//   sum_l a_l (g_l - g_y) - 1/2 tau' H tau,    tau_y = sum_l a_l,  tau_l = -a_l,    g_l = s_l,  g_y = s_y - 1,
//
// with scores s that leave out the row's own contribution and the row's block H of the metric (metrics/). (The margin 1 is
// taken from the own class, not added to the others: their differences must survive when scores are many orders below 1.)
// The machines differ in the domain of a. A domain is a small value, the class TopK of the header domains/top_k.hpp for instance,
// with
//
//   loss      sup over the domain of <a, margins> per unit of cost, at given scores
//   assess    the row's duality gap and largest violation; drops classes that cannot matter from the list
//   settled   nothing is left in the list that could move
//   solve     the row's duals, solved for exactly in a metric: in the identity, and in others that it knows (solve_in.hpp)
//   room      the largest t <= 1 for which t * a stays in the domain
//   squared   the loss is squared: (sum_l a_l)^2 / (4 u) is added to the dual's quadratic
//   fewest    classes a narrowed list must hold beside the non-zero duals for the row to be able to move
//   has_faces, is_free, is_closed, project      what a face step needs (face_step.hpp); optional
//
// and a constructor from parameters and the number of classes if it has any. Python opens it by the name of its header; loops in
// all metrics, on kernels, and what the tests ask are made of it by themselves (loops/domain_of.hpp).
#pragma once

#include <algorithm>
#include <cmath>

#include "../../rows/basics.hpp"

namespace polymargin {

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
    double sum() const {
        double total = 0.0;
        for (Size k = 0; k < count; ++k) total += a[k];
        return total;
    }
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
    Index* parked_classes;  // classes outside the list whose duals sit at the cost
    Size n_parked;

    void park(Size k) { parked_classes[n_parked++] = classes[k]; }
    double parked_sum() const { return static_cast<double>(n_parked) * cost; }
};

struct Assessment {
    double gap, violation;
};

}  // namespace polymargin
