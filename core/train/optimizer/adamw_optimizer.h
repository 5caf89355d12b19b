// AdamW with clipping by the global norm, a learning rate schedule and a moving average of the
// weights.
#ifndef DPIPE_CORE_TRAIN_OPTIMIZER_ADAMW_OPTIMIZER_H_
#define DPIPE_CORE_TRAIN_OPTIMIZER_ADAMW_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ops/optimizer/block_quantized.h"
#include "core/ops/optimizer/optimizer.h"
#include "core/runtime/step_optimizer.h"
#include "core/tensor/tensor.h"
#include "core/train/optimizer/lr_schedule.h"

namespace dpipe {

// AdamW's moments of a parameter's gradients: their mean m and the mean v of their squares.
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

struct AdamWOptions {
  ops::AdamWParams adamw;  // its learning rate comes from the schedule
  LrSchedule learning_rate;
  double max_grad_norm = 1.0;  // 0: no clipping
  // Weight of the old average; 0 means no average. Early on (1 + n) / (10 + n) is used if smaller,
  // with n counting the average's updates since ema_start, so that the average forgets the initial
  // weights.
  double ema_decay = 0.0;
  int64_t ema_every = 1;  // steps between updates of the average
  int64_t ema_start = 0;  // before this step, updates set the average to the weights
  MomentsFormat moments = MomentsFormat::kFp32;
  int moments_block = 256;  // of 8-bit moments
};

// Returns the weight of the old average in its update at the end of step `step` (from 0); 1 if
// there is no update.
double EmaDecayAt(const AdamWOptions& options, int64_t step);

// Returns the optimizer state's bytes per parameter, for the memory estimates of plans.
double OptimizerBytesPerParameter(const AdamWOptions& options);

// Returns AdamW optimizers. Their state has the kinds "m", "v" (or "root_v", for 8-bit moments) and
// kAverageKind.
StepOptimizerFactory AdamWFactory(const AdamWOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_OPTIMIZER_ADAMW_OPTIMIZER_H_
