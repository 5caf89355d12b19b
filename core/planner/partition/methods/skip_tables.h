// Bytes of values by the layers that make and last read them, for the skip-aware partition.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_SKIP_TABLES_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_SKIP_TABLES_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/planner/partition/stage_costs.h"

namespace dpipe {

class SkipTables {
 public:
  SkipTables(const std::vector<ChainValue>& values, int num_layers);

  // Returns the bytes per sample, forward and backward, of the values made in `made` and last read
  // in `read`. O(1).
  int64_t Bytes(LayerRange made, LayerRange read) const {
    return At(made.end, read.end) - At(made.begin, read.end) - At(made.end, read.begin) +
           At(made.begin, read.begin);
  }
  // Returns the bytes of those values that are also read at or after `cut` before their last
  // reader. O(values at the cut).
  int64_t BytesReadBetween(int cut, LayerRange made, LayerRange read) const;

 private:
  struct Twice {  // a value with two readers or more
    int made = 0, last = 0;
    int64_t bytes = 0;
  };

  int64_t At(int made, int read) const { return sums_[made * (num_layers_ + 1) + read]; }

  const int num_layers_;
  std::vector<int64_t> sums_;                 // [a][b]: made before a, last read before b
  std::vector<std::vector<Twice>> crossing_;  // by cut: made before it, first read after it
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_SKIP_TABLES_H_
