// A plan in the simulator's form: the cost of each instruction, and the events that it waits for.
//
// The structure is flat: all ranks' instructions one after another, with indices into tables.
// Building it is O(instructions), except for sorting each rank's received frozen outputs.
#ifndef DPIPE_CORE_SIM_PLAN_GRAPH_H_
#define DPIPE_CORE_SIM_PLAN_GRAPH_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

enum class NodeKind : uint8_t {
  kCompute,
  kInstant,  // takes no time: RELEASE_PARAMS, a gradient added on the rank itself
  kSend,
  kRecv,
  kCollective,  // REDUCE_GRADS, GATHER_PARAMS, SYNC_PARAMS
  kOptimizer,
  kFlush,
};

// One instruction.
struct PlanNode {
  Nanos duration = 0;  // of a computation at the rank's speed
  NodeKind kind = NodeKind::kCompute;
  bool gathers = false;  // GATHER_PARAMS, SYNC_PARAMS: passes wait for it
  // True for REDUCE_GRADS of a sharded stage, which begins only after the rank's earlier
  // reductions.
  bool awaits_reductions = false;
  int8_t step_offset = 0;
  int index = -1;    // into messages or collectives; number of a FLUSH in its step
  int arrival = -1;  // of RECV and gathers: the arrival that others wait for
  int waits_begin = 0, waits_end = 0;
};

// A message or gather that an instruction needs.
struct PlanWait {
  int arrival = 0;
  bool previous_step = false;
};

struct PlanMessage {
  int from = 0, to = 0;                // ranks
  int send = 0, recv = 0;              // the ranks' instructions
  int links_begin = 0, links_end = 0;  // the shared links that it occupies, in link_uses
  Nanos duration = 0;
};

struct PlanCollective {
  int members_begin = 0, members_end = 0;
  int links_begin = 0, links_end = 0;
  Nanos duration = 0;
};

struct CollectiveMember {
  int rank = 0;
  int instruction = 0;
};

struct PlanGraph {
  int num_ranks() const { return static_cast<int>(rank_begin.size()) - 1; }
  int num_nodes(int rank) const { return rank_begin[rank + 1] - rank_begin[rank]; }
  const PlanNode& node(int rank, int instruction) const {
    return nodes[rank_begin[rank] + instruction];
  }

  std::vector<PlanNode> nodes;
  std::vector<int> rank_begin;  // by rank: its first node; one more at the end
  std::vector<PlanWait> waits;
  std::vector<PlanMessage> messages;  // message m arrives as arrival m
  std::vector<PlanCollective> collectives;
  std::vector<CollectiveMember> members;
  std::vector<CostModel::LinkUse> link_uses;
  int num_arrivals = 0;
  int num_shared_links = 0;
  std::vector<int> first_stage_ranks;
  int num_flushes = 0;  // per step, the same on every rank
  bool global_norm = false;
  bool works_across_steps = false;
};

// Returns InvalidArgument if an index is out of range, messages do not pair up, or the cluster has
// another number of devices. VerifyPlan finds all other errors of a plan.
absl::StatusOr<PlanGraph> MakePlanGraph(const Plan& plan, const CostModel& cost);

// Frozen outputs and values received by one rank, indexed by component, layer and samples.
class FrozenInbox {
 public:
  static constexpr int kOutput = -1;

  struct Entry {
    int component = 0;
    int layer = kOutput;  // that the received values are for
    int step_offset = 0;
    SampleRange samples;  // do not overlap within a component and layer
    int arrival = 0;
    // The compute stream is in order, so only the first instruction that reads an entry must wait.
    bool awaited = false, awaited_next_step = false;
  };

  void Clear() { entries_.clear(); }
  bool empty() const { return entries_.empty(); }
  void Add(const Entry& entry) { entries_.push_back(entry); }
  void Sort();  // after the last Add

  // Appends a wait for every entry with `samples` of `component`, for that layer or of its output,
  // that no earlier instruction has waited for, on behalf of a computation of `step_offset`.
  // O(log entries + overlapping entries).
  void Await(int component, int layer, int step_offset, SampleRange samples,
             std::vector<PlanWait>* waits);

 private:
  std::vector<Entry> entries_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_PLAN_GRAPH_H_
