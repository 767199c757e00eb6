// Dual ascent over rows whose label sets are ranked: members Y of a row should score higher than its non-members.
//
//   min_W,b  1/2 |W|^2 + sum_i u_i loss_i,   loss_i = sum_{k in Y, l not in Y} [1 - (s_k - s_l)]_+ / (|Y| |Yc|)   or their maximum
//
// Duals a_kl of a row's pairs make tau_k = sum_l a_kl of members, tau_l = -sum_k a_kl of the others, and w_k = sum_i tau_ik x_i.
//
//   sum        0 <= a_kl <= u / (|Y| |Yc|): coordinate ascent over the pairs, scores follow without another look at x_i
//   maximum    a >= 0, sum a <= u: tau itself is kept, as all that matters is tau_k >= 0 of members, tau_l <= 0 of others and
//              sum_k tau_k = -sum_l tau_l <= u; the row is solved exactly, by thresholds for both sides
//
// The free offsets are those of weights.hpp; their sum stays what it is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "machine/weights.hpp"
#include "loops/schedule.hpp"

namespace polymargin {

// Members and known non-members of each row: those of row i are `starts[2 i]` to `starts[2 i + 1]` and from there to `starts[2 i + 2]`.
struct RankedRows {
    std::vector<std::int64_t> starts;
    std::vector<Index> labels;
};

class RankingLoop {
public:
    RankingLoop(const Rows& rows, RankedRows sides, const double* costs, bool worst, const LoopSettings& settings)
        : rows_(rows), sides_(std::move(sides)), costs_(costs, costs + rows.n_rows()), worst_(worst), n_(rows.n_rows()),
          c_(rows.n_classes()), weights_(rows_, intercept_, identity_), schedule_(n_, rows.bytes(), settings), curvature_(n_),
          first_(n_ + 1, 0), scores_(padded(c_)), steps_(c_), mixed_(c_) {
        for (Size i = 0; i < n_; ++i) {
            const Size size = worst_ ? n_members(i) + n_others(i) : n_members(i) * n_others(i);
            first_[i + 1] = first_[i] + (n_members(i) && n_others(i) ? size : 0);
            curvature_[i] = rows_.squared_norm(i);
        }
        a_.assign(first_[n_], 0.0);
        classes_.resize(c_);
        restore();
    }
    RankingLoop(const RankingLoop&) = delete;  // `weights_` refers to `rows_` and `intercept_`
    RankingLoop& operator=(const RankingLoop&) = delete;

    void start_intercept(const double* means, double inverse_rho) {
        intercept_.start(rows_, means, inverse_rho);
        for (Size i = 0; i < n_; ++i) curvature_[i] = intercept_.curvature(i, rows_.squared_norm(i));
    }

    void ascend(std::int64_t max_visits, double tol, const Poll& poll) {
        const std::int64_t stop = progress().visits + max_visits;
        while (progress().visits < stop) {
            const bool again = schedule_.epoch(
                stop - progress().visits, poll, [&](Size k, const std::vector<std::uint32_t>& visits) {
                    if (k + 1 < visits.size()) rows_.prefetch(visits[k + 1]);
                },
                [&](Size, Size i) { return visit(i); });
            if (again) restore();
            if (schedule_.promises(tol, dual_)) break;
        }
    }

    void restore() {
        schedule_.wake_all();
        for (Size i = 0; i < n_; ++i) schedule_.rest(i, first_[i] == first_[i + 1]);
    }

    void set_duals(const double* a) {
        weights_.clear();
        for (Size i = 0; i < n_; ++i) {
            for (Size p = first_[i]; p < first_[i + 1]; ++p) a_[p] = a[p];
            tau_of(i);
            push(i);
        }
        refresh_dual();
    }

    void move_centre(const double* to) {
        std::copy(to, to + c_, weights_.centre().begin());
        refresh_dual();
    }

    const Weights& weights() const { return weights_; }
    const std::vector<double>& duals() const { return a_; }
    double dual() const { return dual_; }
    const Progress& progress() const { return schedule_.progress(); }
    Size n_features() const { return rows_.n_features(); }
    Size n_labels() const { return c_; }

private:
    const Index* members(Size i) const { return sides_.labels.data() + sides_.starts[2 * i]; }
    const Index* others(Size i) const { return sides_.labels.data() + sides_.starts[2 * i + 1]; }
    Size n_members(Size i) const { return static_cast<Size>(sides_.starts[2 * i + 1] - sides_.starts[2 * i]); }
    Size n_others(Size i) const { return static_cast<Size>(sides_.starts[2 * i + 2] - sides_.starts[2 * i + 1]); }
    double score(Index k) const { return scores_[static_cast<Size>(k)]; }

    // tau of a row by label, in steps_; returns the value sum a
    double tau_of(Size i) {
        std::fill(steps_.begin(), steps_.end(), 0.0);
        double value = 0.0;
        if (first_[i] == first_[i + 1]) return value;
        const double* a = a_.data() + first_[i];
        for (Size k = 0; k < n_members(i); ++k) {
            if (worst_) steps_[static_cast<Size>(members(i)[k])] = a[k];
            for (Size l = 0; !worst_ && l < n_others(i); ++l) {
                const double pair = a[k * n_others(i) + l];
                steps_[static_cast<Size>(members(i)[k])] += pair;
                steps_[static_cast<Size>(others(i)[l])] -= pair;
            }
            value += steps_[static_cast<Size>(members(i)[k])];
        }
        for (Size l = 0; worst_ && l < n_others(i); ++l) steps_[static_cast<Size>(others(i)[l])] = -a[n_members(i) + l];
        return value;
    }

    void push(Size i) {  // v_k += steps_k x_i
        Size count = 0;
        for (Size k = 0; k < c_; ++k) {
            if (steps_[k] == 0.0) continue;
            classes_[count] = static_cast<Index>(k);
            mixed_[count++] = steps_[k];
        }
        if (count > 0) weights_.add(i, classes_.data(), mixed_.data(), count);
    }

    Assessment visit(Size i) {
        weights_.all_scores(i, scores_.data());
        std::fill(steps_.begin(), steps_.end(), 0.0);
        const Assessment seen = worst_ ? solve_worst(i) : solve_pairs(i);
        if (seen.violation > 0.0) push(i);
        return seen;
    }

    Assessment solve_pairs(Size i) {
        const Size m = n_members(i), o = n_others(i);
        const double cap = costs_[i] / (static_cast<double>(m) * static_cast<double>(o)), q = curvature_[i];
        double* a = a_.data() + first_[i];
        double gap = 0.0, violation = 0.0;
        for (Size k = 0; k < m; ++k) {
            for (Size l = 0; l < o; ++l) {
                const double room = 1.0 - score(members(i)[k]) + score(others(i)[l]), dual = a[k * o + l];
                gap += cap * std::max(0.0, room) - dual * room;
                if (!((room <= 0.0 && dual == 0.0) || (room >= 0.0 && dual == cap))) violation = std::max(violation, std::fabs(room));
            }
        }
        if (!(violation > 0.0)) return {gap, 0.0};
        for (int sweep = 0; sweep < 2; ++sweep) {
            for (Size k = 0; k < m; ++k) {
                const auto own = static_cast<Size>(members(i)[k]);
                for (Size l = 0; l < o; ++l) {
                    const auto other = static_cast<Size>(others(i)[l]);
                    const double room = 1.0 - scores_[own] + scores_[other];
                    double& dual = a[k * o + l];
                    const double free = q > 0.0 ? dual + room / (2.0 * q) : room > 0.0 ? cap : 0.0;
                    const double step = std::min(cap, std::max(0.0, free)) - dual;
                    if (step == 0.0) continue;
                    dual += step;
                    dual_ += step * (room - q * step);
                    scores_[own] += q * step;
                    scores_[other] -= q * step;
                    steps_[own] += step;
                    steps_[other] -= step;
                }
            }
        }
        return {gap, violation};
    }

    // sum_j [base_j - t]_+ and how many terms it has
    static double above(const double* base, Size count, double t, Size& terms) {
        double sum = 0.0;
        terms = 0;
        for (Size j = 0; j < count; ++j) {
            if (base[j] <= t) continue;
            sum += base[j] - t;
            ++terms;
        }
        return sum;
    }

    // t with sum_j [base_j - t]_+ = mass > 0: Newton's method from the left never passes it
    static double threshold(const double* base, Size count, double mass) {
        double t = *std::max_element(base, base + count) - mass;
        for (int step = 0; step < 100; ++step) {
            Size terms;
            const double sum = above(base, count, t, terms), next = t + (sum - mass) / static_cast<double>(std::max<Size>(1, terms));
            if (!(next > t)) break;
            t = next;
        }
        return t;
    }

    // max over p, r >= 0 with equal sums m <= u:  m - <p - p0, s_Y> + <r - r0, s_Yc> - q/2 (|p - p0|^2 + |r - r0|^2)
    Assessment solve_worst(Size i) {
        const Size m = n_members(i), o = n_others(i);
        const double u = costs_[i], q = std::max(curvature_[i], 1e-300);
        double* p = a_.data() + first_[i];
        double* r = p + m;
        double lowest = infinity, highest = -infinity, mass = 0.0, value = 0.0;
        base_.resize(m + o);
        for (Size k = 0; k < m; ++k) {
            const double s = score(members(i)[k]);
            lowest = std::min(lowest, s);
            mass += p[k];
            value += p[k] * (1.0 - s);
            base_[k] = p[k] - s / q;
        }
        for (Size l = 0; l < o; ++l) {
            const double s = score(others(i)[l]);
            highest = std::max(highest, s);
            value += r[l] * s;
            base_[m + l] = r[l] + s / q;
        }
        const double gap = u * std::max(0.0, 1.0 - lowest + highest) - value;
        if (!(gap > 1e-15 * u)) return {std::max(0.0, gap), 0.0};
        // thresholds t and -1/q - t of the two sides: their sums are equal at the root of a falling function
        const double* own = base_.data();
        const double* other = base_.data() + m;
        double low = -*std::max_element(other, other + o) - 1.0 / q, high = *std::max_element(own, own + m);
        double t = low, s = -1.0 / q - t;
        if (low < high) {  // else both sums are 0
            for (int step = 0; step < 200; ++step) {
                Size terms, back;
                const double up = above(own, m, t, terms), down = above(other, o, -1.0 / q - t, back);
                (up > down ? low : high) = t;
                double next = t + (up - down) / static_cast<double>(std::max<Size>(1, terms + back));
                if (!(next > low && next < high)) next = 0.5 * (low + high);
                if (next == t || high - low <= 1e-16 * (std::fabs(low) + std::fabs(high))) break;
                t = next;
            }
            s = -1.0 / q - t;
        } else {
            t = high;
            s = *std::max_element(other, other + o);
        }
        Size terms;
        double up = above(own, m, t, terms), down = above(other, o, s, terms);
        if (up > u || down > u) {
            t = threshold(own, m, u);
            s = threshold(other, o, u);
            up = above(own, m, t, terms);
            down = above(other, o, s, terms);
        }
        // rounding: both sides get the smaller sum, which is at most u
        const double level = std::min({up, down, u});
        const double ups = up > 0.0 ? level / up : 0.0, downs = down > 0.0 ? level / down : 0.0;
        double gain = 0.0, largest = 0.0;
        for (Size k = 0; k < m; ++k) {
            const double next = ups * std::max(0.0, own[k] - t), step = next - p[k];
            gain += step * (1.0 - score(members(i)[k])) - 0.5 * q * step * step;
            steps_[static_cast<Size>(members(i)[k])] = step;
            largest = std::max(largest, std::fabs(step));
            p[k] = next;
        }
        for (Size l = 0; l < o; ++l) {
            const double next = downs * std::max(0.0, other[l] - s), step = next - r[l];
            gain += step * score(others(i)[l]) - 0.5 * q * step * step;
            steps_[static_cast<Size>(others(i)[l])] = -step;
            largest = std::max(largest, std::fabs(step));
            r[l] = next;
        }
        dual_ += gain;
        return {gap, largest > 0.0 ? gap / u : 0.0};
    }

    // sum a - 1/2 |W|^2 - proximal terms
    void refresh_dual() {
        double value = 0.0;
        for (Size i = 0; i < n_; ++i) value += tau_of(i);
        double offsets = 0.0;
        for (Size k = 0; k < c_; ++k) offsets += weights_.sums()[k] * weights_.centre()[k];
        dual_ = value - 0.5 * weights_.proximal_norm() - offsets;
    }

    Rows rows_;
    RankedRows sides_;
    std::vector<double> costs_;
    const bool worst_;
    const Size n_, c_;
    Intercept intercept_;
    const MachineMetric identity_;
    Weights weights_;
    Schedule schedule_;
    std::vector<double> curvature_, a_;
    std::vector<Size> first_;
    double dual_ = 0.0;

    // one row's workspace
    std::vector<double> scores_, steps_, mixed_, base_;
    std::vector<Index> classes_;
};

}  // namespace polymargin
