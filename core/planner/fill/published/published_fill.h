// Fills a pipeline's bubbles by DiffusionPipe's rule, as this project reads it.    [algorithms.md
// §4]
//
// The rule (layer_fill.h) runs a layer on all samples of a group at once, on the devices that idle
// together. So samples change devices between layers, and messages carry their values
// (schedule/lowering/weave.h). The interval before a device's optimizer step is a bubble, too.
//
// The reading is rebuilt from the paper's abstract and public descriptions. Where those are silent,
// it takes a simple choice: a device of a bubble gets a share of neighbouring samples, most of
// which it had before if possible; messages leave as soon as their values exist; and the rule does
// not count their time. The simulated step does: the reading is no faster than a publication whose
// samples change devices for free.
#ifndef DPIPE_CORE_PLANNER_FILL_PUBLISHED_PUBLISHED_FILL_H_
#define DPIPE_CORE_PLANNER_FILL_PUBLISHED_PUBLISHED_FILL_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/lowering/weave.h"
#include "core/schedule/trace_stats.h"

namespace dpipe {

struct PublishedOptions {
  bool partial_batch = true;
  Nanos min_bubble_ns = 0;         // shorter bubbles are not used
  std::vector<int> local_batches;  // of partial batches, in samples; empty: any
  double margin = 0;               // fraction of each bubble that is left free
  // Maximum samples of an instruction; larger batches run in pieces of this size, which limits the
  // memory of the layers. 0: no limit. Else a multiple of the frozen quantum.
  int max_batch = 0;
};

// Returns the phases of all groups' frozen work for WeaveFrozenWork. `unfilled` and `events` are as
// for PlaceFrozenWork. A group's samples must be a multiple of the frozen quantum.
std::vector<FrozenPhase> PlaceByPublishedRule(const Plan& unfilled,
                                              const std::vector<StreamEvent>& events,
                                              const CostModel& cost,
                                              const PublishedOptions& options);

// Returns WeaveOptions.start_ns: the starts of step 1. An instruction without an event starts with
// the one before it.
std::vector<std::vector<Nanos>> StartsByRank(const Plan& plan,
                                             const std::vector<StreamEvent>& events);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_PUBLISHED_PUBLISHED_FILL_H_
