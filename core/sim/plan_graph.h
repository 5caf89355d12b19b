// A plan as the simulator walks it: what each instruction costs and which received data it waits
// for.
#ifndef DPIPE_CORE_SIM_PLAN_GRAPH_H_
#define DPIPE_CORE_SIM_PLAN_GRAPH_H_

#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

enum class NodeKind { kCompute, kSend, kRecv, kReduce, kOptimizer, kFlush };

// One instruction.
struct PlanNode {
  NodeKind kind = NodeKind::kCompute;
  int step_offset = 0;
  Nanos duration = 0;  // of the computation, of the transfer (SEND), of the whole reduction
  int peer = -1;       // of a message
  int match = -1;      // the message's counterpart on the peer's list
  int reduction = -1;  // kReduce: which; the same on every rank that takes part
  int flush = -1;      // kFlush: which of the step
  int waits_begin = 0, waits_end = 0;  // into PlanGraph::waits of the rank
};

// A received message that an instruction reads.
struct PlanWait {
  int recv = 0;  // index on the rank's own list
  bool previous_step = false;
};

struct Reduction {
  int num_ranks = 0;                         // of the stage
  std::vector<std::pair<int, int>> members;  // (rank, instruction)
};

struct PlanGraph {
  std::vector<std::vector<PlanNode>> nodes;  // [rank][instruction]
  std::vector<std::vector<PlanWait>> waits;  // [rank]
  std::vector<Reduction> reductions;
  std::vector<int> first_stage_ranks;
  int num_flushes = 0;  // of a step, the same on every rank
  bool global_norm = false;
  bool works_across_steps = false;
};

// InvalidArgument if an index is out of range, messages do not pair up or the cluster has another
// number of devices. Everything else that can be wrong with a plan is VerifyPlan's to say.
absl::StatusOr<PlanGraph> MakePlanGraph(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_PLAN_GRAPH_H_
