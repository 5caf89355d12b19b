#include "core/schedule/memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/range.h"

namespace dpipe {
namespace {

SampleRange SamplesIn(const Instruction& instruction) {
  return {instruction.samples().begin(), instruction.samples().end()};
}

LayerRange LayersIn(const Instruction& instruction) {
  return {instruction.layers().begin(), instruction.layers().end()};
}

bool CompletesWeights(const Instruction& instruction) {
  return instruction.kind() == Instruction::BACKWARD ||
         instruction.kind() == Instruction::WEIGHT_GRAD;
}

// One rank's list with what is alive when; times are indices into the list.
class RankTracker {
 public:
  RankTracker(const Plan& plan, int rank, const CostModel& cost)
      : cost_(cost), list_(plan.devices(rank).instructions()), held_(list_.size() + 1, 0) {
    for (const Stage& stage : plan.stages()) {
      for (int member : stage.ranks()) {
        if (member == rank) stage_ = &stage;
      }
    }
  }

  RankMemory Run() {
    IndexPasses();
    for (int i = 0; i < list_.size(); ++i) AddInstruction(i);
    RankMemory memory;
    memory.state_bytes = StateBytes();
    int64_t held = memory.state_bytes;
    for (int i = 0; i < list_.size(); ++i) {
      held += held_[i];
      memory.instruction_bytes.push_back(held + transient_[i]);
      if (held + transient_[i] > memory.peak_bytes) {
        memory.peak_bytes = held + transient_[i];
        memory.peak_instruction = i;
      }
    }
    memory.peak_bytes = std::max(memory.peak_bytes, memory.state_bytes);
    return memory;
  }

 private:
  struct MicroBatch {
    SampleRange samples;
    int forward = -1;
    int gradient_done = -1;  // the last pass that reads the incoming gradient
    int done = -1;           // the last pass of all
  };

  LayerRange StageLayers() const { return {stage_->layers().begin(), stage_->layers().end()}; }

  void IndexPasses() {
    transient_.assign(list_.size(), 0);
    for (int i = 0; i < list_.size(); ++i) {
      const Instruction& instruction = list_[i];
      MicroBatch& m = micro_batches_[instruction.micro_batch()];
      if (instruction.kind() == Instruction::FORWARD) {
        m.forward = i;
        m.samples = SamplesIn(instruction);
      }
      if (instruction.kind() == Instruction::BACKWARD ||
          instruction.kind() == Instruction::INPUT_GRAD) {
        m.gradient_done = i;
      }
      if (CompletesWeights(instruction)) m.done = i;
    }
    micro_batches_.erase(-1);
  }

  // Alive from instruction `from` to `to`, both included.
  void Hold(int from, int to, int64_t bytes) {
    held_[from] += bytes;
    held_[std::max(from, to) + 1] -= bytes;
  }
  // Alive from `from` of one step to `to` of the next.
  void HoldAcross(int from, int to, int64_t bytes) {
    Hold(from, list_.size() - 1, bytes);
    Hold(0, to, bytes);
  }

  int64_t StateBytes() const {
    int64_t bytes = stage_ == nullptr ? 0 : cost_.StateBytes(StageLayers());
    std::map<int, std::set<int>> layers;  // that the rank runs, by frozen component
    for (const Instruction& instruction : list_) {
      if (instruction.kind() != Instruction::FROZEN_FORWARD) continue;
      for (int l = instruction.layers().begin(); l < instruction.layers().end(); ++l) {
        if (!layers[instruction.component()].insert(l).second) continue;
        bytes += cost_.ParameterBytes(instruction.component(), {l, l + 1});
      }
    }
    return bytes;
  }

  void AddInstruction(int i) {
    const Instruction& instruction = list_[i];
    switch (instruction.kind()) {
      case Instruction::FORWARD:
        AddWorkspace(i, cost_.backbone());
        break;
      case Instruction::BACKWARD:
      case Instruction::WEIGHT_GRAD:
        AddWorkspace(i, cost_.backbone());
        // What the forward pass of these layers saved ends here.
        Hold(std::max(0, micro_batches_[instruction.micro_batch()].forward), i,
             cost_.SavedBytesPerSample(cost_.backbone(), LayersIn(instruction)) *
                 SamplesIn(instruction).size());
        break;
      case Instruction::INPUT_GRAD:
        AddWorkspace(i, cost_.backbone());
        break;
      case Instruction::FROZEN_FORWARD:
        AddWorkspace(i, instruction.component());
        AddFrozen(i);
        break;
      case Instruction::LOAD_BATCH:
        AddLoaded(i);
        break;
      case Instruction::SEND:
      case Instruction::RECV:
        AddMessage(i);
        break;
      default:
        break;
    }
  }

  void AddWorkspace(int i, int component) {
    transient_[i] +=
        cost_.WorkspaceBytesPerSample(component, LayersIn(list_[i])) * SamplesIn(list_[i]).size();
  }

  void AddMessage(int i) {
    const Instruction& message = list_[i];
    if (message.payload() == Instruction::FROZEN_OUTPUT) {
      if (message.kind() == Instruction::RECV) AddOutputs(i);
      return;
    }
    const auto found = micro_batches_.find(message.micro_batch());
    if (found == micro_batches_.end()) return;
    const bool activation = message.payload() == Instruction::ACTIVATION;
    const int pass = activation ? found->second.forward : found->second.gradient_done;
    if (pass < 0) return;
    Hold(std::min(i, pass), std::max(i, pass), message.bytes());
  }

  // Intermediate values, kept until the chain goes on, or the outputs at its end.
  void AddFrozen(int i) {
    const Instruction& work = list_[i];
    const int end = work.layers().end();
    if (end == cost_.num_layers(work.component())) {
      AddOutputs(i);
      return;
    }
    const int64_t bytes = cost_.CutBytesPerSample(work.component(), end);
    for (int j = i + 1; j < list_.size(); ++j) {
      if (!Continues(work, list_[j], end)) continue;
      Hold(i, j, bytes * SamplesIn(work).Intersect(SamplesIn(list_[j])).size());
    }
  }

  static bool Continues(const Instruction& work, const Instruction& next, int layer) {
    return next.kind() == Instruction::FROZEN_FORWARD && next.component() == work.component() &&
           next.step_offset() == work.step_offset() && next.layers().begin() == layer;
  }

  // Inputs from the host, until the first layers have run; of a cached batch, until its backward
  // pass.
  void AddLoaded(int i) {
    const Instruction& load = list_[i];
    const SampleRange samples = SamplesIn(load);
    if (load.component() == cost_.backbone()) {
      int64_t bytes = 0;
      for (int source : cost_.SourcesOf(cost_.backbone(), StageLayers())) {
        bytes += cost_.OutputBytesPerSample(source);
      }
      for (const auto& [id, m] : micro_batches_) {
        Hold(i, m.done, bytes * samples.Intersect(m.samples).size());
      }
      return;
    }
    for (int j = i + 1; j < list_.size(); ++j) {
      if (!Continues(load, list_[j], 0)) continue;
      Hold(i, j,
           cost_.LoadedBytesPerSample(load.component()) *
               samples.Intersect(SamplesIn(list_[j])).size());
    }
  }

  // Outputs of a frozen component that instruction i computes or receives: until the last of the
  // messages and the frozen layers of this step that read them and, sample by sample, the backward
  // passes.
  void AddOutputs(int i) {
    const Instruction& made = list_[i];
    const SampleRange samples = SamplesIn(made);
    const int64_t bytes = cost_.OutputBytesPerSample(made.component());
    int last = i;
    for (int j = i + 1; j < list_.size(); ++j) {
      if (ReadsOutputs(list_[j], made)) last = j;
    }
    int64_t others = samples.size();
    const std::vector<int> sources = cost_.SourcesOf(cost_.backbone(), StageLayers());
    if (std::find(sources.begin(), sources.end(), made.component()) != sources.end()) {
      for (const auto& [id, m] : micro_batches_) {
        const int common = samples.Intersect(m.samples).size();
        others -= common;
        if (made.step_offset() == 0) {
          Hold(i, std::max(last, m.done), bytes * common);
        } else {
          HoldAcross(i, m.done, bytes * common);
        }
      }
    }
    Hold(i, last, bytes * others);
  }

  bool ReadsOutputs(const Instruction& reader, const Instruction& made) const {
    if (SamplesIn(reader).Intersect(SamplesIn(made)).empty()) return false;
    if (reader.step_offset() != made.step_offset()) return false;
    if (reader.kind() == Instruction::SEND) {
      return reader.payload() == Instruction::FROZEN_OUTPUT &&
             reader.component() == made.component();
    }
    if (reader.kind() != Instruction::FROZEN_FORWARD) return false;
    const std::vector<int> sources = cost_.SourcesOf(reader.component(), LayersIn(reader));
    return std::find(sources.begin(), sources.end(), made.component()) != sources.end();
  }

  const CostModel& cost_;
  const google::protobuf::RepeatedPtrField<Instruction>& list_;
  const Stage* stage_ = nullptr;
  std::map<int, MicroBatch> micro_batches_;
  std::vector<int64_t> held_;       // change from one instruction to the next
  std::vector<int64_t> transient_;  // while one instruction runs
};

}  // namespace

RankMemory MemoryOfRank(const Plan& plan, int rank, const CostModel& cost) {
  return RankTracker(plan, rank, cost).Run();
}

absl::Status CheckMemory(const Plan& plan, const CostModel& cost) {
  const int64_t limit = cost.cluster().memory_bytes_per_device();
  if (limit == 0) return absl::OkStatus();
  for (int r = 0; r < plan.devices_size(); ++r) {
    const RankMemory memory = MemoryOfRank(plan, r, cost);
    if (memory.peak_bytes <= limit) continue;
    const Instruction& at = plan.devices(r).instructions(memory.peak_instruction);
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", r, ", instruction ", memory.peak_instruction, " (",
                     Instruction::Kind_Name(at.kind()), "): peak ", FormatBytes(memory.peak_bytes),
                     " exceeds the limit of ", FormatBytes(limit)));
  }
  return absl::OkStatus();
}

}  // namespace dpipe
