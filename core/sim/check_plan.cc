#include "core/sim/check_plan.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/messages/rendezvous.h"

namespace dpipe {

namespace {

bool UsesStage(Instruction::Kind kind) {
  switch (kind) {
    case Instruction::FORWARD:
    case Instruction::RECOMPUTE:
    case Instruction::BACKWARD:
    case Instruction::INPUT_GRAD:
    case Instruction::WEIGHT_GRAD:
    case Instruction::REDUCE_GRADS:
    case Instruction::GATHER_PARAMS:
    case Instruction::RELEASE_PARAMS:
    case Instruction::SYNC_PARAMS:
      return true;
    default:
      return false;
  }
}

bool Computes(Instruction::Kind kind) {
  return kind == Instruction::LOAD_BATCH || kind == Instruction::FROZEN_FORWARD ||
         (UsesStage(kind) && kind != Instruction::REDUCE_GRADS &&
          kind != Instruction::GATHER_PARAMS && kind != Instruction::RELEASE_PARAMS &&
          kind != Instruction::SYNC_PARAMS);
}

class IndexChecker {
 public:
  IndexChecker(const Plan& plan, const CostModel& cost)
      : plan_(plan), cost_(cost), max_micro_batches_(MaxMicroBatches(plan)) {}

  absl::Status Check() {
    if (plan_.devices_size() != cost_.num_devices()) {
      return absl::InvalidArgumentError(absl::StrCat("the plan has ", plan_.devices_size(),
                                                     " devices, but the cluster has ",
                                                     cost_.num_devices()));
    }
    DPIPE_RETURN_IF_ERROR(CheckMicroBatches());
    for (int s = 0; s < plan_.stages_size(); ++s) DPIPE_RETURN_IF_ERROR(CheckStage(s));
    DPIPE_RETURN_IF_ERROR(CheckHolders());
    for (int rank = 0; rank < plan_.devices_size(); ++rank) {
      std::vector<bool> held(plan_.stages_size(), false);
      for (int stage : stages_of_[rank]) held[stage] = true;
      for (int i = 0; i < plan_.devices(rank).instructions_size(); ++i) {
        DPIPE_RETURN_IF_ERROR(CheckInstruction(rank, i, held));
      }
    }
    return absl::OkStatus();
  }

 private:
  // Bounds the size of tables by micro-batch: each micro-batch has at least one instruction.
  absl::Status CheckMicroBatches() const {
    int longest = 0;
    for (const DeviceProgram& program : plan_.devices()) {
      longest = std::max(longest, program.instructions_size());
    }
    if (max_micro_batches_ <= longest) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("num_micro_batches=", max_micro_batches_,
                                                   ", but the plan's longest list has ", longest,
                                                   " instructions"));
  }

  absl::Status CheckStage(int s) const {
    const Stage& stage = plan_.stages(s);
    if (stage.component() < 0 || stage.component() >= cost_.num_components()) {
      return absl::InvalidArgumentError(absl::StrCat("stage ", s, ": component ", stage.component(),
                                                     " is not one of the ",
                                                     cost_.num_components()));
    }
    const Range& layers = stage.layers();
    const int num_layers = cost_.num_layers(stage.component());
    if (layers.begin() < 0 || layers.begin() > layers.end() || layers.end() > num_layers) {
      return absl::InvalidArgumentError(absl::StrCat("stage ", s, ": layers.end=", layers.end(),
                                                     ", but there are ", num_layers, " layers"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckHolders() {
    const int count = plan_.devices_size();
    stages_of_.resize(count);
    for (int s = 0; s < plan_.stages_size(); ++s) {
      for (int rank : plan_.stages(s).ranks()) {
        if (rank < 0 || rank >= count) {
          return absl::InvalidArgumentError(
              absl::StrCat("stage ", s, ": rank ", rank, ", but there are ", count, " ranks"));
        }
        stages_of_[rank].push_back(s);
      }
    }
    for (int rank = 0; rank < count; ++rank) {
      if (stages_of_[rank].empty())
        return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " holds no stage"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckInstruction(int rank, int index, const std::vector<bool>& held) const {
    const Instruction& instruction = plan_.devices(rank).instructions(index);
    const Instruction::Kind kind = instruction.kind();
    const auto bad = [&](const char* field, int64_t value, int64_t count) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank, ", instruction ", index, ": ",
                                                     field, "=", value, "; it must be less than ",
                                                     count));
    };
    int component = -1;
    if (UsesStage(kind)) {
      const int stage = instruction.stage();
      if (stage < 0 || stage >= plan_.stages_size()) {
        return bad("stage", stage, plan_.stages_size());
      }
      if (!held[stage]) {
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", rank, ", instruction ", index, ": stage ", stage,
                         ", but the rank holds stage ", stages_of_[rank][0],
                         stages_of_[rank].size() > 1 ? " and others" : ""));
      }
      component = plan_.stages(stage).component();
    } else if (Computes(kind)) {
      component = instruction.component();
      if (component < 0 || component >= cost_.num_components()) {
        return bad("component", component, cost_.num_components());
      }
    }
    if (component >= 0) {
      const Range& layers = instruction.layers();
      const int num_layers = cost_.num_layers(component);
      if (layers.begin() < 0 || layers.begin() > layers.end() || layers.end() > num_layers) {
        return bad("layers.end", layers.end(), num_layers + 1);
      }
    }
    const bool is_pass = UsesStage(kind) && Computes(kind);
    if (is_pass &&
        (instruction.micro_batch() < 0 || instruction.micro_batch() >= max_micro_batches_)) {
      return bad("micro_batch", instruction.micro_batch(), max_micro_batches_);
    }
    const Range& samples = instruction.samples();
    if (samples.begin() < 0 || samples.end() > plan_.global_batch()) {
      return bad("samples.end", samples.end(), int64_t{plan_.global_batch()} + 1);
    }
    if (samples.end() < samples.begin() || (Computes(kind) && samples.end() == samples.begin())) {
      return bad("samples.begin", samples.begin(), samples.end());
    }
    return CheckMessage(rank, index, held);
  }

  absl::Status CheckMessage(int rank, int index, const std::vector<bool>& held) const {
    const Instruction& message = plan_.devices(rank).instructions(index);
    if (message.kind() != Instruction::SEND && message.kind() != Instruction::RECV) {
      return absl::OkStatus();
    }
    const auto bad = [&](const char* field, int64_t value) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank, ", instruction ", index, ": ", field, "=", value,
                       " is out of range or belongs to the wrong rank"));
    };
    if (message.peer() < 0 || message.peer() >= plan_.devices_size() || message.peer() == rank) {
      return bad("peer", message.peer());
    }
    if (message.bytes() < 0) return bad("bytes", message.bytes());
    if (IsOfFrozen(message.payload())) return absl::OkStatus();
    const int stage = message.stage();
    if (stage < 0 || stage >= plan_.stages_size() || !held[stage]) return bad("stage", stage);
    if (message.micro_batch() < 0 || message.micro_batch() >= max_micro_batches_) {
      return bad("micro_batch", message.micro_batch());
    }
    return absl::OkStatus();
  }

  const Plan& plan_;
  const CostModel& cost_;
  const int max_micro_batches_;
  std::vector<std::vector<int>> stages_of_;  // by rank
};

}  // namespace

std::vector<PipelineChain> ChainsOf(const Plan& plan) {
  if (plan.chains_size() > 0) return {plan.chains().begin(), plan.chains().end()};
  PipelineChain chain;
  chain.set_component(plan.stages(0).component());
  chain.set_num_stages(plan.stages_size());
  chain.set_num_micro_batches(plan.num_micro_batches());
  chain.set_micro_batch_size(plan.micro_batch_size());
  return {chain};
}

int MaxMicroBatches(const Plan& plan) {
  int max_micro_batches = plan.num_micro_batches();
  for (const PipelineChain& chain : plan.chains()) {
    max_micro_batches = std::max(max_micro_batches, chain.num_micro_batches());
  }
  return max_micro_batches;
}

absl::Status CheckPlanIndices(const Plan& plan, const CostModel& cost) {
  return IndexChecker(plan, cost).Check();
}

namespace {

struct Entry {
  MessageEnd end;
  int peer = 0;
};

// Stable counting sort.
template <typename Key>
std::vector<Entry> SortedBy(const std::vector<Entry>& entries, int num_keys, Key key) {
  std::vector<int> at(num_keys + 1, 0);
  for (const Entry& entry : entries) ++at[key(entry) + 1];
  for (int k = 0; k < num_keys; ++k) at[k + 1] += at[k];
  std::vector<Entry> sorted(entries.size());
  for (const Entry& entry : entries) sorted[at[key(entry)]++] = entry;
  return sorted;
}

int RankOf(const Entry& entry) { return entry.end.rank; }
int PeerOf(const Entry& entry) { return entry.peer; }

bool SameContent(const Instruction& send, const Instruction& recv) {
  return send.payload() == recv.payload() && send.stage() == recv.peer_stage() &&
         send.peer_stage() == recv.stage() && send.component() == recv.component() &&
         send.micro_batch() == recv.micro_batch() && send.bytes() == recv.bytes() &&
         send.step_offset() == recv.step_offset() &&
         send.samples().begin() == recv.samples().begin() &&
         send.samples().end() == recv.samples().end();
}

// Returns MatchMessages' description of the error.
absl::Status Explain(const Plan& plan) {
  const absl::Status status = MatchMessages(plan).status();
  return status.ok() ? absl::InternalError("sends and receives do not match") : status;
}

}  // namespace

absl::StatusOr<std::vector<MessagePair>> PairMessages(const Plan& plan) {
  const int num_ranks = plan.devices_size();
  std::vector<Entry> sends, recvs;  // by (rank, instruction)
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto& list = plan.devices(rank).instructions();
    for (int i = 0; i < list.size(); ++i) {
      if (list[i].kind() == Instruction::SEND) sends.push_back({{rank, i}, list[i].peer()});
      if (list[i].kind() == Instruction::RECV) recvs.push_back({{rank, i}, list[i].peer()});
    }
  }
  if (sends.size() != recvs.size()) return Explain(plan);
  sends = SortedBy(sends, num_ranks, PeerOf);
  recvs = SortedBy(SortedBy(recvs, num_ranks, PeerOf), num_ranks, RankOf);
  std::vector<MessagePair> pairs;
  pairs.reserve(sends.size());
  for (size_t k = 0; k < sends.size(); ++k) {
    const Entry& send = sends[k];
    const Entry& recv = recvs[k];
    if (send.peer != recv.end.rank || recv.peer != send.end.rank ||
        !SameContent(plan.devices(send.end.rank).instructions(send.end.instruction),
                     plan.devices(recv.end.rank).instructions(recv.end.instruction))) {
      return Explain(plan);
    }
    pairs.push_back({send.end, recv.end});
  }
  return pairs;
}

}  // namespace dpipe
