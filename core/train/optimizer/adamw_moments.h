// AdamW's moments of a parameter's gradients: their mean m and the mean v of their squares.
#ifndef DPIPE_CORE_TRAIN_OPTIMIZER_ADAMW_MOMENTS_H_
#define DPIPE_CORE_TRAIN_OPTIMIZER_ADAMW_MOMENTS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ops/optimizer/block_quantized.h"
#include "core/tensor/tensor.h"

namespace dpipe {

enum class MomentsFormat {
  kFp32,  // 8 bytes per element of the parameter
  // 2 bytes per element, and 8 per block: m and the root of v in 8 bits, block-wise
  // (BlockQuantized).
  kInt8,
};

class AdamWMoments {
 public:
  // Creates zero moments, with the shape and device of `parameter`. `block_size` is for kInt8.
  AdamWMoments(MomentsFormat format, int block_size, const Tensor& parameter);

  // The moments in fp32, or fp32 copies of kInt8's.
  struct Pair {
    Tensor m, v;
  };
  Pair Load() const;
  // The quantized moments of kInt8, for ops::AdamWInt8Steps.
  ops::BlockQuantized* int8_m() { return m_.get(); }
  ops::BlockQuantized* int8_root_v() { return root_v_.get(); }

  // Returns the moments as saved runs store them, in fp32 by name: "m" and "v" or, for kInt8, "m"
  // and "root_v". The latter are in the host's memory, since a device with small moments may have
  // no room for them. Import reads back the tensors of the last Export, which may have been
  // overwritten. Importing unmodified exports changes nothing, in either format.
  std::vector<std::pair<std::string, Tensor>> Export();
  void Import();
  // Discards the exports.
  void DropExports() { exported_.reset(); }

  int64_t size_bytes() const;

 private:
  const MomentsFormat format_;
  Pair fp32_;                                        // for kFp32
  Shape shape_;                                      // for kInt8
  std::unique_ptr<ops::BlockQuantized> m_, root_v_;  // for kInt8
  std::optional<Pair> exported_;                     // for kInt8: m and the root of v
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_OPTIMIZER_ADAMW_MOMENTS_H_
