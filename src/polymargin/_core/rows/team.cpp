// Threads that share small pieces of work.
#include "team.hpp"

#include <algorithm>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#define PM_PAUSE() _mm_pause()
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define PM_PAUSE() __asm__ volatile("yield")
#else
#define PM_PAUSE() ((void)0)
#endif

namespace polymargin {
namespace {

// Spins; who has spun for long lets others have the processor now and then.
class Patience {
public:
    void wait() {
        PM_PAUSE();
        if (++turns_ > 4096) std::this_thread::yield();
    }

private:
    int turns_ = 0;
};

}  // namespace

Team::Team(int n_threads) {
    try {
        for (int t = 1; t < n_threads; ++t) workers_.emplace_back([this] { wait_for_work(); });
    } catch (...) {  // as many as the system has given
    }
}

Team::~Team() {
    over_.store(true, std::memory_order_release);
    for (auto& worker : workers_) worker.join();
}

void Team::run(Size count) {
    done_.store(0, std::memory_order_relaxed);
    const std::uint64_t last = round_.load(std::memory_order_relaxed) >> (2 * next_bits);
    round_.store((last + 1) << (2 * next_bits) | count << next_bits, std::memory_order_release);
    work();
    for (Patience patience; done_.load(std::memory_order_acquire) < count;) patience.wait();
    if (failed_.load(std::memory_order_relaxed)) {
        failed_.store(false, std::memory_order_relaxed);
        std::rethrow_exception(error_);
    }
}

void Team::work() {
    std::uint64_t round = round_.load(std::memory_order_acquire);
    while (taken(round) < pieces(round)) {
        if (!round_.compare_exchange_weak(round, round + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
        try {
            call_(piece_, taken(round));
        } catch (...) {
            if (!failed_.exchange(true, std::memory_order_acq_rel)) error_ = std::current_exception();
        }
        done_.fetch_add(1, std::memory_order_release);
        round = round_.load(std::memory_order_acquire);
    }
}

void Team::wait_for_work() {
    for (Patience patience; !over_.load(std::memory_order_acquire);) {
        const std::uint64_t round = round_.load(std::memory_order_acquire);
        if (taken(round) < pieces(round)) {
            work();
            patience = Patience();
        } else {
            patience.wait();
        }
    }
}

}  // namespace polymargin
