// What AdamW remembers of a parameter's gradients: their mean m and the mean v of their squares.
#ifndef DPIPE_CORE_TRAIN_ADAMW_MOMENTS_H_
#define DPIPE_CORE_TRAIN_ADAMW_MOMENTS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ops/block_quantized.h"
#include "core/tensor/tensor.h"

namespace dpipe {

enum class MomentsFormat {
  kFp32,  // 8 bytes a number of the parameter
  // 2 bytes a number, and 8 a block: m and the root of v in 8 bits, block-wise (BlockQuantized).
  kInt8,
};

class AdamWMoments {
 public:
  // Zero, shaped as `parameter` and on its device. `block_size`: of kInt8.
  AdamWMoments(MomentsFormat format, int block_size, const Tensor& parameter);

  // In fp32: the moments themselves, or copies of kInt8's.
  struct Pair {
    Tensor m, v;
  };
  Pair Load() const;
  // Of kInt8, for ops::AdamWInt8Steps.
  ops::BlockQuantized* int8_m() { return m_.get(); }
  ops::BlockQuantized* int8_root_v() { return root_v_.get(); }

  // What a saved run has of it, fp32 by name: "m" and "v"; of kInt8 "m" and "root_v", in the host's
  // memory, since a device whose moments are small may have no room for them. Import takes
  // over what has been written into the tensors that the last Export gave. Importing what was
  // exported changes nothing, in either format.
  std::vector<std::pair<std::string, Tensor>> Export();
  void Import();
  // Forgets what was exported.
  void DropExports() { exported_.reset(); }

  int64_t size_bytes() const;

 private:
  const MomentsFormat format_;
  Pair fp32_;                                        // of kFp32
  Shape shape_;                                      // of kInt8
  std::unique_ptr<ops::BlockQuantized> m_, root_v_;  // of kInt8
  std::optional<Pair> exported_;                     // of kInt8: m and the root of v
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_ADAMW_MOMENTS_H_
