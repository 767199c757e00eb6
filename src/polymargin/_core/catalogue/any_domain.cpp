// The domains by name.
#include "any_domain.hpp"

#include <stdexcept>

namespace polymargin {

#define PM_DOMAIN(name) extern const DomainKind name##_domain;  // domains.inc: a line for each header of domains/
#include "domains.inc"
#undef PM_DOMAIN

namespace {

#define PM_DOMAIN(name) &name##_domain,
const DomainKind* const kinds[] = {
#include "domains.inc"
};
#undef PM_DOMAIN

}  // namespace

const DomainKind& domain_kind(const std::string& name) {
    std::string known;
    for (const DomainKind* kind : kinds) {
        if (name == kind->name) return *kind;
        known += (known.empty() ? "" : ", ") + std::string(kind->name);
    }
    throw std::invalid_argument("unknown domain '" + name + "': there are " + known);
}

std::vector<std::string> domain_names() {
    std::vector<std::string> names;
    for (const DomainKind* kind : kinds) names.emplace_back(kind->name);
    return names;
}

}  // namespace polymargin
