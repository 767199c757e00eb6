// Whether threads pay. What they tell each other costs about as much as a short visit: on few columns, with lists that have become
// short, or where other programs want the processors, one thread is faster. They change no bit, so that a clock may decide.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "rows/basics.hpp"

namespace polymargin {

// Some groups of rows that are visited together are a stretch, which goes one way. What a score costs depends on how many a group
// wants: stretches are compared with their like.
class WhichPays {
public:
    // Which way the next stretch goes, whose first group wants so many scores: the one that took less time, but now and then the other one.
    bool threads_next(Size wanted) {
        kind_ = 0;
        for (; wanted > 1 && kind_ + 1 < kinds_.size(); wanted /= 2) ++kind_;
        Kind& kind = kinds_[kind_];
        const bool asks = kind.times++ % ask_again == first_asked;
        return (kind.alone == 0.0 || kind.by_threads <= kind.alone) != asks;
    }

    // A stretch, whichever way it went: from when on it counts, and how many scores were found since then.
    void begin() { began_ = Clock::now(); }
    void note(bool by_threads, Size scores) {
        const std::chrono::duration<double> took = Clock::now() - began_;
        const double a_score = took.count() / static_cast<double>(std::max<Size>(1, scores));
        double& known = by_threads ? kinds_[kind_].by_threads : kinds_[kind_].alone;
        known = known == 0.0 ? a_score : std::min(a_score, slower * known);
    }

private:
    using Clock = std::chrono::steady_clock;

    struct Kind {
        double by_threads = 0.0, alone = 0.0;  // seconds a score; 0 if not known yet
        int times = 0;
    };

    static constexpr int ask_again = 24, first_asked = 2;  // stretches: what is lost by asking is little of the difference
    static constexpr double slower = 1.25;  // one stretch may be slow for other reasons: that it says more is not believed at once

    std::array<Kind, 24> kinds_{};  // by the binary logarithm of what a group wants
    Size kind_ = 0;
    Clock::time_point began_{};
};

}  // namespace polymargin
