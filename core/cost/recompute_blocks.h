// Division of a stage that recomputes into blocks of layers. [algorithms.md §2]
//
// A stage of layers [i, j) has blocks with boundaries i < c_1 < ... < c_k < j. Its forward pass
// keeps, per micro-batch, what crosses the stage's own beginning and what its blocks hand on:
//
//   h_p = bytes of the values that block p makes and that later layers of the stage read.
//
// Its backward pass takes the blocks from the last to the first. It restores the saved activations
// s_p of one block at a time, when what this and later blocks handed on is no longer needed. With n
// micro-batches in flight the stage needs, beyond what crosses its beginning,
//
//   n sum_p h_p  +  max over p of (s_p - h_p - h_{p+1} - ...)
//
// The time is that of one more forward pass, whatever the blocks. For k equal blocks of a uniform
// chain the best k grows with the square root of the number of layers.
#ifndef DPIPE_CORE_COST_RECOMPUTE_BLOCKS_H_
#define DPIPE_CORE_COST_RECOMPUTE_BLOCKS_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "core/base/range.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// Bytes per sample.
struct RecomputeNeed {
  int64_t handed_on = 0;  // sum of h_p, kept per micro-batch in flight
  int64_t restored = 0;   // the maximum, while a backward pass runs

  int64_t WithInFlight(int count) const { return count * handed_on + restored; }
};

// Thread-safe.
class RecomputeBlocks {
 public:
  explicit RecomputeBlocks(const ComponentProfile& component);

  // Returns the bytes per sample of the values that `block` makes and that layers in [block.end,
  // end) read. O(values that the block makes).
  int64_t HandedOnBytes(LayerRange block, int end) const;
  // Returns the need of blocks with these boundaries, strictly inside `layers`.
  RecomputeNeed NeedOf(LayerRange layers, const std::vector<int>& cuts) const;
  // Returns the boundaries with the least need among a number of divisions of the whole component,
  // about one for each factor of 1.5 in the size of a block; none if one block needs least. The
  // first call takes O(layers^2), later ones O(values of the layers) per division.
  std::vector<int> Cuts(LayerRange layers, int in_flight) const;

 private:
  struct Value {
    int64_t bytes = 0;
    std::vector<int> readers;  // increasing
  };
  // Of the whole component; each hands on the least of those whose blocks save at most as much.
  std::vector<std::vector<int>> MakeDivisions() const;

  std::vector<std::vector<Value>> values_;  // by the layer that makes them
  std::vector<int64_t> saved_;              // [i]: per sample, of layers [0, i)
  mutable std::once_flag once_;
  mutable std::vector<std::vector<int>> divisions_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_RECOMPUTE_BLOCKS_H_
