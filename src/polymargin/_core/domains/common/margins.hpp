// The two kinds of margins: to the rivals, s_y - s_l, and absolute ones, s_y and -s_l.
#pragma once

#include <stdexcept>
#include <vector>

#include "row_view.hpp"

namespace polymargin {

struct RelativeMargins {
    static constexpr bool absolute = false;
    static constexpr bool of_highest = false;
    static constexpr bool separate = false;
    static constexpr Squares squares = Squares::none;

    bool has_own() const { return false; }
    bool has_rivals() const { return true; }
    double weight(bool /*own*/) const { return 1.0; }
    double square(const RowDuals& /*duals*/) const { return 0.0; }
};

// parameters: the weights of the own margin and of the rivals'; 0 where there is none
class AbsoluteMargins {
public:
    static constexpr bool absolute = true;
    static constexpr bool separate = false;
    static constexpr Squares squares = Squares::none;

    explicit AbsoluteMargins(const std::vector<double>& parameters) {
        if (parameters.size() != 2 || !(parameters[0] >= 0.0) || !(parameters[1] >= 0.0) ||
            !(parameters[0] + parameters[1] > 0.0)) {
            throw std::invalid_argument("absolute margins need two parameters, the weights of the own margin and of the rivals'");
        }
        own_ = parameters[0];
        rival_ = parameters[1];
    }

    bool has_own() const { return own_ > 0.0; }
    bool has_rivals() const { return rival_ > 0.0; }
    double weight(bool own) const { return own ? own_ : rival_; }
    double square(const RowDuals& /*duals*/) const { return 0.0; }

protected:
    double own_, rival_;
};

}  // namespace polymargin
