// Cupcake's algorithm: chooses the neighbouring tensors to compress together.
//
// Wang, Wu, Ng, "Cupcake: A compression scheduler for scalable communication-efficient distributed
// training" (MLSys 2023). Compressing tensor by tensor has a fixed cost for each; compressing all
// at once makes the network wait for the compressor. Tensors are fused into contiguous groups,
// which are compressed and sent one after another, so that each group is sent while the next one is
// compressed.
#ifndef DPIPE_CORE_TRAIN_COMPRESSION_CHOOSE_FUSION_H_
#define DPIPE_CORE_TRAIN_COMPRESSION_CHOOSE_FUSION_H_

#include <cstdint>
#include <vector>

#include "core/base/time.h"

namespace dpipe {

// Costs of a group of n numbers.
struct FusionCosts {
  Nanos compress_fixed_ns = 0;
  double compress_ns_per_number = 0;
  Nanos send_fixed_ns = 0;
  double send_ns_per_number = 0;  // per number sent
  double sent_share = 1;          // numbers sent per number of the group; > 1 for many ranks

  Nanos Compress(int64_t n) const;
  Nanos Send(int64_t n) const;
};

// Returns the time at which the last group has been sent, if groups end before the tensors `ends`
// (increasing; the last one is the number of tensors).
Nanos FusedTime(const std::vector<int64_t>& sizes, const std::vector<int>& ends,
                const FusionCosts& costs);

// Returns the ends of the groups that take the least time. Exact: dynamic programming over the
// begin of the last group. The only state of the groups before it is the pair of times at which
// compressor and network are free, and only pairs that no other dominates are kept. Except for
// rounding, the compressor's time depends on the number of groups alone: for n tensors at most n
// pairs are kept per position, and O(n^3) are examined. Rounding shifts k groups by up to k/2 ns,
// which makes these O(n^2) and O(n^4).
std::vector<int> ChooseFusion(const std::vector<int64_t>& sizes, const FusionCosts& costs);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_COMPRESSION_CHOOSE_FUSION_H_
