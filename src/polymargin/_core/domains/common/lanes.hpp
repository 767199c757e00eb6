// Loops over the classes of a row, four at a time and the rest one by one, by the same formula: of values that do not wait for each
// other, and without a branch, since which duals are free is as good as random.
//
//   Sum total;
//   in_lanes(count, [&](Size k, auto lane) {
//       const auto a = read(row.a + k, lane);
//       total += larger(a, all(0.0, lane));
//   });
#pragma once

#include <algorithm>

#include "rows/basics.hpp"
#include "rows/pack.hpp"

namespace polymargin {

inline Pack read(const double* from, const Pack& /*lane*/) { return load(from); }
inline double read(const double* from, double /*lane*/) { return *from; }
inline void write(double* to, const Pack& values) { store(to, values); }
inline void write(double* to, double value) { *to = value; }
inline Pack all(double value, const Pack& /*lane*/) { return spread(value); }
inline double all(double value, double /*lane*/) { return value; }

inline double larger(double a, double b) { return a > b ? a : b; }
inline double smaller(double a, double b) { return a < b ? a : b; }
// `value` where a > b, `other` elsewhere
inline double where_above(double a, double b, double value, double other) { return a > b ? value : other; }

#if defined(__GNUC__) || defined(__clang__)
inline Pack larger(const Pack& a, const Pack& b) { return a > b ? a : b; }
inline Pack smaller(const Pack& a, const Pack& b) { return a < b ? a : b; }
inline Pack where_above(const Pack& a, const Pack& b, const Pack& value, const Pack& other) { return a > b ? value : other; }
#else
inline Pack where_above(const Pack& a, const Pack& b, const Pack& value, const Pack& other) {
    Pack out;
    for (int k = 0; k < 4; ++k) out.v[k] = a.v[k] > b.v[k] ? value.v[k] : other.v[k];
    return out;
}
inline Pack larger(const Pack& a, const Pack& b) { return where_above(a, b, a, b); }
inline Pack smaller(const Pack& a, const Pack& b) { return where_above(b, a, a, b); }
inline Pack operator-(const Pack& a, const Pack& b) { return a + spread(-1.0) * b; }
#endif

template <class Work>
inline void in_lanes(Size count, const Work& work) {
    Size k = 0;
    for (; k + 4 <= count; k += 4) work(k, Pack{});
    for (; k < count; ++k) work(k, 0.0);
}

class Sum {
public:
    void operator+=(const Pack& values) { four_ += values; }
    void operator+=(double value) { one_ += value; }
    double value() const { return sum(four_) + one_; }

private:
    Pack four_ = spread(0.0);
    double one_ = 0.0;
};

inline double sum_of(const double* values, Size count) {
    Sum total;
    in_lanes(count, [&](Size k, auto lane) { total += read(values + k, lane); });
    return total.value();
}

inline double sum_of_squares(const double* values, Size count) {
    Sum total;
    in_lanes(count, [&](Size k, auto lane) {
        const auto value = read(values + k, lane);
        total += value * value;
    });
    return total.value();
}

// The largest value so far, from `start` on; and the smallest one.
class Largest {
public:
    explicit Largest(double start) : four_(spread(start)), one_(start) {}

    void see(const Pack& values) { four_ = larger(values, four_); }
    void see(double value) { one_ = larger(value, one_); }
    double value() const { return larger(larger(larger(four_[0], four_[1]), larger(four_[2], four_[3])), one_); }

private:
    Pack four_;
    double one_;
};

class Smallest {
public:
    explicit Smallest(double start) : four_(spread(start)), one_(start) {}

    void see(const Pack& values) { four_ = smaller(values, four_); }
    void see(double value) { one_ = smaller(value, one_); }
    double value() const { return smaller(smaller(smaller(four_[0], four_[1]), smaller(four_[2], four_[3])), one_); }

private:
    Pack four_;
    double one_;
};

inline double smallest_of(const double* values, Size count) {
    Smallest smallest(infinity);
    in_lanes(count, [&](Size k, auto lane) { smallest.see(read(values + k, lane)); });
    return smallest.value();
}

}  // namespace polymargin
