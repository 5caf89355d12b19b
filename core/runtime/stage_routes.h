// The values that each stage of a plan receives, passes on and keeps.
//
// A *lap* is a run of consecutive stages of a chain that partitions the component's layers: the
// whole chain or, with self-conditioning, one of its halves. Let stage a of a lap produce value v,
// and let two stages be on one device if they have the same ranks. Then, with k and k+1 consecutive
// stages of the lap:
//
//   v crosses from k to k+1, a <= k, iff some stage t >= k+1 that reads v is on another device than
//   a. Readers on a's own device take the copy that stays there.
//
// The gradient of v crosses back from k+1 to k if v has one, layers after k read v, and any reader
// of v is on another device than a. It travels further than v itself does: contributions are added
// from the last reader to the first, as on one device. So the contribution of a last reader on a's
// own device must reach the readers before it. If no reader is elsewhere, the gradient stays on the
// device and is handed from reader to reader there.
//
// Values that cross travel in ACTIVATION and GRADIENT messages, or are handed over inside the ranks
// if both stages are on one device. External inputs never travel.
#ifndef DPIPE_CORE_RUNTIME_STAGE_ROUTES_H_
#define DPIPE_CORE_RUNTIME_STAGE_ROUTES_H_

#include <string>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/nn/model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// An external input of a component, read by a stage.
struct ExternalInput {
  ValueId id;
  std::string name;
  int source = -1;     // frozen component that feeds it; -1: drawn or loaded
  std::string output;  // of the source
};

// A value that a stage reads from those kept on the device.
struct KeptRead {
  ValueId id;
  bool is_last = false;  // no later stage of the device reads it there
};

// A block of a stage that recomputes. Its backward pass takes the blocks from the last to the
// first.
struct RecomputedBlock {
  LayerRange layers;
  // The values of earlier blocks and stages, and the estimate, that its layers read: everything
  // needed to recompute it. Those in `last_reads` are read by no block before it.
  std::vector<ValueId> reads, last_reads;
};

struct StageRoutes {
  int component = 0;
  int backbone = 0;  // number of the component among the model's backbones
  LayerRange layers;
  int chain = 0;
  int lap = 0;                   // its first stage
  int previous = -1, next = -1;  // stages of the chain, in either lap
  bool previous_is_local = false, next_is_local = false;
  bool ends_lap = false;  // computes the loss or, if forward_only, the estimate
  bool forward_only = false;
  bool sharded = false;

  // Over the boundaries to the neighbours. The boundary between the laps carries the component's
  // self-conditioning: out, the program's estimate; in, the external input that it becomes.
  std::vector<ValueId> activations_in, activations_out;
  std::vector<ValueId> gradients_in, gradients_out;
  // On the device, by lap and micro-batch.
  std::vector<ValueId> keeps;
  std::vector<KeptRead> kept_reads;
  std::vector<ValueId> kept_gradients_in, kept_gradients_out;

  std::vector<RecomputedBlock> blocks;  // empty if it does not recompute
  std::vector<ExternalInput> inputs;    // all but the estimate
  ValueId self_conditioning;            // the external input; invalid if it is not read
};

// Returns the routes by stage id. A plan without chains is one chain of all its stages. Returns
// InvalidArgument, naming stage and component, if
// - a chain is not a partition of a backbone of the model,
// - a stage after the first reads the self-conditioning input,
// - there is a second lap but no such input, or
// - a sharded stage's layers are on other ranks too.
absl::StatusOr<std::vector<StageRoutes>> RouteStages(const Plan& plan, const nn::Model& model);

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_STAGE_ROUTES_H_
