#include "core/tensor/add_up.h"

#include <type_traits>

namespace dpipe {
namespace {

// Adds up elements i, ..., i + kLanes - 1. All totals are computed before one is written: the
// compiler cannot know that a term either is the sum or does not overlap it, and would otherwise
// not vectorise.
template <int kLanes, bool kAdds, typename NumTerms>
inline void AddUpLanes(const float* const* terms, NumTerms num_terms, int64_t i, float* sum) {
  float totals[kLanes];
  for (int l = 0; l < kLanes; ++l) totals[l] = terms[0][i + l];
  for (int t = 1; t < num_terms; ++t) {
    for (int l = 0; l < kLanes; ++l) totals[l] += terms[t][i + l];
  }
  for (int l = 0; l < kLanes; ++l) totals[l] = kAdds ? sum[i + l] + totals[l] : totals[l];
  for (int l = 0; l < kLanes; ++l) sum[i + l] = totals[l];
}

template <bool kAdds, typename NumTerms>
void AddUpBy(const OrderedSum& sum, NumTerms num_terms) {
  constexpr int kLanes = 64;  // 256 bytes of each term: faster than 64, 128, 512 or 1024
  const float* const* const terms = sum.terms.data();
  int64_t i = 0;
  for (; i + kLanes <= sum.count; i += kLanes) {
    AddUpLanes<kLanes, kAdds>(terms, num_terms, i, sum.sum);
  }
  for (; i < sum.count; ++i) AddUpLanes<1, kAdds>(terms, num_terms, i, sum.sum);
}

template <bool kAdds>
void AddUpAny(const OrderedSum& sum) {
  // With a compile-time number of terms, the totals stay in registers.
  switch (sum.terms.size()) {
    case 1:
      return AddUpBy<kAdds>(sum, std::integral_constant<int, 1>());
    case 2:
      return AddUpBy<kAdds>(sum, std::integral_constant<int, 2>());
    case 3:
      return AddUpBy<kAdds>(sum, std::integral_constant<int, 3>());
    case 4:
      return AddUpBy<kAdds>(sum, std::integral_constant<int, 4>());
    default:
      return AddUpBy<kAdds>(sum, static_cast<int>(sum.terms.size()));
  }
}

}  // namespace

void AddUp(const OrderedSum& sum) { sum.adds ? AddUpAny<true>(sum) : AddUpAny<false>(sum); }

}  // namespace dpipe
