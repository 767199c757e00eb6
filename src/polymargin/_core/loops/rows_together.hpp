// Rows that are visited together: they look at the machine as it was before any of them moved, and then all move (Jacobi among them,
// Gauss-Seidel between groups). Where that pays threads share them, in two steps with a meeting after each:
//
//   1. each thread minds a part of the class vectors: it adds what the last rows have moved, and finds what its part is of the scores that the
//      next ones want;
//   2. each thread minds some of the rows: it joins their scores, solves and stores them, and begins those of the next group.
//
// What is left to the owner, in the order of the rows, is little: sums, and rows whose duals need more room.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "faces/extrapolation.hpp"
#include "row_visit.hpp"
#include "schedule.hpp"
#include "threads/exchange.hpp"
#include "threads/team.hpp"
#include "threads/which_pays.hpp"

namespace polymargin {

template <class Domain, class Metric>
class RowsTogether {
public:
    RowsTogether(const Domain& domain, DualState& state, Schedule& schedule, Extrapolation& extrapolation, const std::vector<Index>& every_class,
                 Size most)
        : state_(state), schedule_(schedule), extrapolation_(extrapolation),
          numbers_a_row_(static_cast<double>(state.rows.bytes()) / static_cast<double>(sizeof(double) * std::max<Size>(1, state.n_rows()))) {
        for (auto& places : places_) {
            places.reserve(most);
            for (Size k = 0; k < most; ++k) places.emplace_back(domain, every_class);
        }
    }

    // An epoch, so many rows at a time; steps are noted in `average` too, if there is one, by the part of the epoch before them. Returns
    // whether everything should be looked at again.
    bool epoch(Size together, std::int64_t max_visits, Weights* average, Team& team, const Poll& poll) {
        together_ = together;
        average_ = average;
        sums_ = schedule_.begin(max_visits);
        const auto& rows = schedule_.listed();
        rows_ = rows.data();
        n_ = rows.size();
        if (reports_.size() != team.size()) {
            reports_.assign(team.size(), {});
            answers_.assign(team.size(), {places_[0].size(), state_.rows.n_classes()});
        }
        const Size n_groups = (n_ + together - 1) / together;
        begin_rows(group(0), 0, 1, nullptr);
        Size g = 0;
        try {
            while (g < n_groups) {
                poll();
                g = stretch(g, n_groups, team);
            }
        } catch (...) {
            add_last(g);
            throw;
        }
        add_last(g);
        return schedule_.end(sums_);
    }

private:
    using Visit = RowVisit<Domain, Metric>;

    struct Group {
        Size number, first, count;
        std::vector<Visit>& places;

        Size begin(Size thread, Size of) const { return thread * count / of; }
    };

    // Neighbours lie in places of their own: one is begun while the other is stored.
    Group group(Size number) {
        const Size first = std::min(n_, number * together_);
        return {number, first, std::min(together_, n_ - first), places_[number % 2]};
    }

    double part_before(Size number) const { return static_cast<double>(number * together_) / static_cast<double>(n_); }  // of the epoch

    // Some groups from the g-th on, with threads or without, as pays. Returns the next one.
    Size stretch(Size g, Size n_groups, Team& team) {
        const Group first = group(g);
        Size wanted = 0;
        for (Size k = 0; k < first.count; ++k) wanted += first.places[k].n_wanted;
        const double work = numbers_a_row_ * static_cast<double>(std::max<Size>(1, wanted));
        const Size last = std::min(n_groups, g + static_cast<Size>(std::clamp(most_work / work, 1.0, most_groups)));
        uncounted_ = g + (last - g) / 8;  // weights that change hands are fetched once
        const bool by_threads = team.size() > 1 && which_pays_.threads_next(wanted) && by_team(g, last, team);
        if (!by_threads) {
            add_last(g);
            for (Size k = g; k < last; ++k) visit_alone(group(k));
        }
        if (team.size() > 1) which_pays_.note(by_threads, counted_);
        return last;
    }

    void count(const Group& now) {
        if (now.number == uncounted_) {
            which_pays_.begin();
            counted_ = 0;
        }
        for (Size k = 0; k < now.count; ++k) counted_ += now.places[k].n_wanted;
    }

    // Whether other threads were ready.
    bool by_team(Size g, Size last, Team& team) {
        if (!have_reported_) {
            const Group first = group(g);
            for (Size k = 0; k < first.count; ++k) report_wants(k, first.places[k], reports_[0]);
            have_reported_ = true;
        }
        return team.work([&](Size thread, Size of) {
            const WeightPart part = state_.weights.part(thread, of);
            for (Size k = g; k < last; ++k) {
                const Group now = group(k);
                if (thread == 0) count(now);
                add_and_find(k, part, answers_[thread]);
                if (thread == 0) add_sums(k);
                team.meet(thread, of);
                Report& report = reports_[thread];
                report.forget();
                if (thread == 0) std::for_each(reports_.begin() + static_cast<std::ptrdiff_t>(of), reports_.end(), [](Report& one) { one.forget(); });
                for (Size r = now.begin(thread, of); r < now.begin(thread + 1, of); ++r) visit_by_thread(r, now.places[r], of, report);
                begin_rows(group(k + 1), thread, of, &report);
                team.meet(thread, of);
                if (thread == 0) {
                    for (Size r = 0; r < now.count; ++r) settle(now.places[r]);
                }
            }
        });
    }

    // What the group before the g-th has moved, and what this one wants.
    void add_and_find(Size g, const WeightPart& part, Answer& answer) {
        for (const Report& report : reports_) {
            report.add_moved(part, 1.0, state_.weights, answer.room);
            if (average_ && g > 0) report.add_moved(part, part_before(g - 1), *average_, answer.room);
        }
        answer.begin();
        for (const Report& report : reports_) answer.find(report, part, state_.weights, state_.rows);
    }

    void visit_by_thread(Size k, Visit& visit, Size of, Report& report) {
        if (visit.wants_all()) {
            state_.weights.finish_all(visit.i, visit.scores);
        } else {
            const double* found[Weights::most_parts];
            for (Size part = 0; part < of; ++part) found[part] = answers_[part].of_row(k);
            state_.weights.join_scores(of, visit.i, visit.wanted, visit.n_wanted + Metric::has_sum, found, visit.scores);
        }
        visit.examine(state_, schedule_.usual_threshold());
        finish(visit);
        visit.is_stored = !(visit.n_moved > 0 && extrapolation_.wants(visit.i)) && visit.store_if_room(state_.duals);
        report.moved(visit.i, visit.moved.data(), visit.steps.data(), visit.n_moved);
    }

    void visit_alone(const Group& now) {
        constexpr Size ahead = 3;
        count(now);
        whole_.clear();
        scores_.clear();
        for (Size k = 0; k < std::min(ahead, now.count); ++k) state_.rows.prefetch(now.places[k].i);
        for (Size k = 0; k < now.count; ++k) {
            if (k + ahead < now.count) state_.rows.prefetch(now.places[k + ahead].i);
            Visit& visit = now.places[k];
            if (visit.wants_all()) {  // class vectors are read once for all of these
                whole_.push_back(visit.i);
                scores_.push_back(visit.scores);
            } else {
                visit.read(state_.weights);
            }
        }
        state_.weights.all_scores(whole_.data(), whole_.size(), scores_.data());
        for (Size k = 0; k < now.count; ++k) now.places[k].examine(state_, schedule_.usual_threshold());
        for (Size k = 0; k < now.count; ++k) {
            Visit& visit = now.places[k];
            finish(visit);
            visit.is_stored = false;
            add(1.0, visit, state_.weights);
            if (average_) add(part_before(now.number), visit, *average_);
            settle(visit);
        }
        begin_rows(group(now.number + 1), 0, 1, nullptr);
        have_reported_ = false;
    }

    // share times the steps
    void add(double share, const Visit& visit, Weights& weights) {
        weights.add_sums(share, visit.i, visit.moved.data(), visit.steps.data(), visit.n_moved);
        weights.add_part(weights.part(0, 1), share, visit.i, visit.moved.data(), visit.steps.data(), visit.n_moved, room_);
    }

    void begin_rows(const Group& next, Size thread, Size of, Report* report) {
        for (Size k = next.begin(thread, of); k < next.begin(thread + 1, of); ++k) {
            const Size at = next.first + k;
            if (at + together_ < n_) state_.duals.prefetch(rows_[at + together_]);
            if (at + 2 * together_ < n_) state_.prefetch(rows_[at + 2 * together_]);
            next.places[k].begin(state_, rows_[at]);
            if (report) report_wants(k, next.places[k], *report);
        }
    }

    void report_wants(Size k, const Visit& visit, Report& report) const {
        if (visit.wants_all()) {
            report.wants_all(visit.i, visit.scores);
        } else {
            report.wants(k, visit.i, visit.wanted, visit.n_wanted + Metric::has_sum);
        }
    }

    // Of one row, whatever the others do.
    void finish(Visit& visit) {
        schedule_.rest(visit.i, visit.is_settled());
        visit.n_moved = state_.weights.close(visit.moved.data(), visit.steps.data(), visit.n_moved);
    }

    // In the order of the rows.
    void settle(Visit& visit) {
        schedule_.note(sums_, visit.i, visit.seen);
        state_.dual += visit.gain;
        if (visit.n_moved > 0) extrapolation_.note(visit.i);
        if (!visit.is_stored) visit.store(state_.duals);
    }

    // Of the group before the next one.
    void add_sums(Size next) {
        for (const Report& report : reports_) {
            report.add_sums(1.0, state_.weights);
            if (average_ && next > 0) report.add_sums(part_before(next - 1), *average_);
        }
    }

    // What rows have moved must reach the weights before these are read otherwise, and however an epoch ends.
    void add_last(Size next) {
        add_sums(next);
        const WeightPart all = state_.weights.part(0, 1);
        for (const Report& report : reports_) {
            report.add_moved(all, 1.0, state_.weights, room_);
            if (average_ && next > 0) report.add_moved(all, part_before(next - 1), *average_, room_);
        }
        for (Report& report : reports_) report.forget();
        have_reported_ = false;
    }

    DualState& state_;
    Schedule& schedule_;
    Extrapolation& extrapolation_;
    double numbers_a_row_;
    std::vector<Visit> places_[2];
    Size together_ = 1, n_ = 0;
    const std::uint32_t* rows_ = nullptr;  // of this epoch
    Weights* average_ = nullptr;
    typename Schedule::Sums sums_;

    static constexpr double most_groups = 32.0, most_work = 4e6;  // of a stretch; work in products of numbers
    WhichPays which_pays_;
    Size uncounted_ = 0, counted_ = 0;  // the group from which on a stretch counts, and the scores since then
    std::vector<Report> reports_;       // of each thread
    std::vector<Answer> answers_;
    bool have_reported_ = false;        // the rows of the next group what they want
    RowRoom room_{state_.rows.n_classes()};
    std::vector<Size> whole_;           // rows that are read at once, and where their scores go
    std::vector<double*> scores_;
};

}  // namespace polymargin
