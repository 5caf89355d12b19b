// Cupcake's choice: which neighbouring tensors to compress together.
//
// Wang, Wu, Ng, "Cupcake: A compression scheduler for scalable communication-efficient distributed
// training" (MLSys 2023): compressing tensor by tensor pays a fixed cost for each, compressing all
// at once lets the network wait for the compressor. Tensors are fused into contiguous groups, which
// are compressed and sent one after another, the sending of one beside the compressing of the next.
#ifndef DPIPE_CORE_TRAIN_COMPRESSION_CHOOSE_FUSION_H_
#define DPIPE_CORE_TRAIN_COMPRESSION_CHOOSE_FUSION_H_

#include <cstdint>
#include <vector>

#include "core/base/time.h"

namespace dpipe {

// Of a group of n numbers.
struct FusionCosts {
  Nanos compress_fixed_ns = 0;
  double compress_ns_per_number = 0;
  Nanos send_fixed_ns = 0;
  double send_ns_per_number = 0;  // that is sent
  double sent_share = 1;          // numbers that are sent for each of the n; > 1 of many ranks'

  Nanos Compress(int64_t n) const;
  Nanos Send(int64_t n) const;
};

// When the last group has been sent, if groups end before the tensors `ends` (increasing, the last
// one the number of tensors).
Nanos FusedTime(const std::vector<int64_t>& sizes, const std::vector<int>& ends,
                const FusionCosts& costs);

// The ends of the groups that take the least time. Exact: dynamic programming over where the last
// group begins; of the groups before it only when compressor and network are free counts, and of
// those pairs only the ones that no other beats in both. When the compressor is free depends on the
// number of groups alone, but for the rounding of times: of n tensors at most n pairs are kept at a
// place, and O(n^3) looked at; with rounding, which moves k groups by k/2 ns, O(n^2) and O(n^4).
std::vector<int> ChooseFusion(const std::vector<int64_t>& sizes, const FusionCosts& costs);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_COMPRESSION_CHOOSE_FUSION_H_
