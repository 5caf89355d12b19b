#include "core/schedule/verify.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/schedule/frozen_ledger.h"
#include "core/schedule/memory.h"
#include "core/schedule/plan_shape.h"
#include "core/schedule/rendezvous.h"

namespace dpipe {
namespace {

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

LayerRange LayersIn(const Instruction& instruction) {
  return {instruction.layers().begin(), instruction.layers().end()};
}

SampleRange SamplesIn(const Instruction& instruction) {
  return {instruction.samples().begin(), instruction.samples().end()};
}

// Walks one rank's list, whose fields are in range, and proves that each instruction finds what it
// needs.
class RankWalk {
 public:
  RankWalk(const Plan& plan, const PlanShape& shape, const CostModel& cost, int rank)
      : plan_(plan),
        shape_(shape),
        cost_(cost),
        rank_(rank),
        place_(shape.place(rank)),
        frozen_(plan, shape, cost, rank),
        micro_batches_(plan.num_micro_batches()),
        next_weight_(place_.layers.size(), 0),
        reduced_(place_.layers.size(), false) {
    for (MicroBatch& m : micro_batches_) m.gradient_layer = place_.layers.end;
  }

  absl::Status Run(std::vector<std::vector<int>>* computed) {
    const int count = plan_.devices(rank_).instructions_size();
    for (int i = 0; i < count; ++i) {
      if (stepped_) return Bad(InstructionName(plan_, rank_, i) + "it follows OPTIMIZER_STEP");
      DPIPE_RETURN_IF_ERROR(
          Visit(InstructionName(plan_, rank_, i), plan_.devices(rank_).instructions(i)));
    }
    if (!stepped_) return Bad(absl::StrCat("rank ", rank_, ": there is no OPTIMIZER_STEP"));
    return frozen_.Finish(computed);
  }

  const std::vector<LayerRange>& reductions() const { return reductions_; }
  // The step_offset of each FLUSH.
  const std::vector<int>& flushes() const { return flushes_; }

 private:
  struct MicroBatch {
    bool forward = false;
    int gradient_layer = 0;  // layers from here on have their input gradients
    std::vector<SampleRange> activations, gradients;  // received
  };

  bool IsReplicated() const { return plan_.stages(place_.stage).ranks_size() > 1; }

  absl::Status Visit(const std::string& where, const Instruction& instruction) {
    switch (instruction.kind()) {
      case Instruction::LOAD_BATCH:
        return frozen_.Load(where, instruction);
      case Instruction::FROZEN_FORWARD:
        return frozen_.Run(where, instruction);
      case Instruction::FORWARD:
        return Forward(where, instruction);
      case Instruction::BACKWARD:
        DPIPE_RETURN_IF_ERROR(InputGrad(where, instruction));
        return WeightGrad(where, instruction);
      case Instruction::INPUT_GRAD:
        return InputGrad(where, instruction);
      case Instruction::WEIGHT_GRAD:
        return WeightGrad(where, instruction);
      case Instruction::SEND:
      case Instruction::RECV:
        return instruction.payload() == Instruction::FROZEN_OUTPUT
                   ? FrozenMessage(where, instruction)
                   : Message(where, instruction);
      case Instruction::REDUCE_GRADS:
        return Reduce(where, instruction);
      case Instruction::FLUSH:
        flushes_.push_back(instruction.step_offset());
        return absl::OkStatus();
      default:  // CheckFields has let only OPTIMIZER_STEP through
        return OptimizerStep(where);
    }
  }

  absl::Status CheckSamples(const std::string& where, const Instruction& pass) const {
    const SampleRange own = shape_.SamplesOf(rank_, pass.micro_batch());
    if (SamplesIn(pass) == own) return absl::OkStatus();
    return Bad(absl::StrCat(where, "samples ", SamplesIn(pass).ToString(), " of micro-batch ",
                            pass.micro_batch(), "; this rank's are ", own.ToString()));
  }

  absl::Status CheckReceived(const std::string& where, const char* what,
                             const std::vector<SampleRange>& received, int micro_batch) const {
    int count = 0;
    for (const SampleRange& range : received) count += range.size();
    const int own = shape_.SamplesOf(rank_, micro_batch).size();
    if (count == own) return absl::OkStatus();
    return Bad(absl::StrCat(where, what, " of ", count, " of the ", own, " samples of micro-batch ",
                            micro_batch, " have been received"));
  }

  absl::Status Forward(const std::string& where, const Instruction& pass) {
    MicroBatch& m = micro_batches_[pass.micro_batch()];
    DPIPE_RETURN_IF_ERROR(CheckSamples(where, pass));
    if (LayersIn(pass) != place_.layers) {
      return Bad(absl::StrCat(where, "layers ", LayersIn(pass).ToString(), " of the stage's ",
                              place_.layers.ToString()));
    }
    if (m.forward) {
      return Bad(absl::StrCat(where, "a second forward pass of micro-batch ", pass.micro_batch()));
    }
    if (place_.stage > 0) {
      DPIPE_RETURN_IF_ERROR(CheckReceived(where, "activations", m.activations, pass.micro_batch()));
    }
    DPIPE_RETURN_IF_ERROR(frozen_.CheckReadable(where, place_.layers, SamplesIn(pass)));
    m.forward = true;
    return absl::OkStatus();
  }

  absl::Status InputGrad(const std::string& where, const Instruction& pass) {
    MicroBatch& m = micro_batches_[pass.micro_batch()];
    DPIPE_RETURN_IF_ERROR(CheckSamples(where, pass));
    if (!m.forward) {
      return Bad(
          absl::StrCat(where, "micro-batch ", pass.micro_batch(), " has had no forward pass"));
    }
    const LayerRange layers = LayersIn(pass);
    if (layers.end != m.gradient_layer) {
      return Bad(absl::StrCat(where, "layers ", layers.ToString(),
                              ", and gradients of micro-batch ", pass.micro_batch(),
                              " have come down to layer ", m.gradient_layer));
    }
    if (layers.end == place_.layers.end && place_.stage + 1 < shape_.num_stages()) {
      DPIPE_RETURN_IF_ERROR(CheckReceived(where, "gradients", m.gradients, pass.micro_batch()));
    }
    m.gradient_layer = layers.begin;
    return absl::OkStatus();
  }

  absl::Status WeightGrad(const std::string& where, const Instruction& pass) {
    const MicroBatch& m = micro_batches_[pass.micro_batch()];
    DPIPE_RETURN_IF_ERROR(CheckSamples(where, pass));
    const LayerRange layers = LayersIn(pass);
    if (layers.begin < m.gradient_layer) {
      return Bad(absl::StrCat(where, "layers ", layers.ToString(),
                              ", and gradients of micro-batch ", pass.micro_batch(),
                              " have come down to layer ", m.gradient_layer));
    }
    for (int l = layers.begin; l < layers.end; ++l) {
      int& next = next_weight_[l - place_.layers.begin];
      if (next != pass.micro_batch()) {
        return Bad(absl::StrCat(where, "layer ", l, " adds the weight gradient of micro-batch ",
                                pass.micro_batch(), "; next in order is ", next));
      }
      ++next;
    }
    return absl::OkStatus();
  }

  // ACTIVATION and GRADIENT.
  absl::Status Message(const std::string& where, const Instruction& message) {
    const bool sends = message.kind() == Instruction::SEND;
    const bool activation = message.payload() == Instruction::ACTIVATION;
    const int other = place_.stage + (sends == activation ? 1 : -1);
    if (message.peer_stage() != other || shape_.place(message.peer()).stage != other) {
      return Bad(absl::StrCat(where, "peer ", message.peer(), " of peer_stage ",
                              message.peer_stage(), "; the neighbour is stage ", other));
    }
    const SampleRange samples = SamplesIn(message);
    const SampleRange own = shape_.SamplesOf(rank_, message.micro_batch());
    if (!own.Contains(samples)) {
      return Bad(absl::StrCat(where, "samples ", samples.ToString(), " of micro-batch ",
                              message.micro_batch(), "; this rank's are ", own.ToString()));
    }
    const int cut = place_.stage < other ? place_.layers.end : place_.layers.begin;
    const int64_t per_sample = activation ? cost_.CutBytesPerSample(cost_.backbone(), cut)
                                          : cost_.CutGradientBytesPerSample(cost_.backbone(), cut);
    DPIPE_RETURN_IF_ERROR(CheckBytes(where, message, per_sample * samples.size()));
    MicroBatch& m = micro_batches_[message.micro_batch()];
    if (sends) {
      const bool made = activation ? m.forward : m.gradient_layer == place_.layers.begin;
      if (made) return absl::OkStatus();
      return Bad(
          absl::StrCat(where, "micro-batch ", message.micro_batch(), " is not computed yet"));
    }
    std::vector<SampleRange>& received = activation ? m.activations : m.gradients;
    for (const SampleRange& before : received) {
      if (samples.Intersect(before).empty()) continue;
      return Bad(absl::StrCat(where, "samples ", samples.ToString(), "; ", before.ToString(),
                              " have been received already"));
    }
    received.push_back(samples);
    return absl::OkStatus();
  }

  absl::Status FrozenMessage(const std::string& where, const Instruction& message) {
    if (message.component() == cost_.backbone()) return Bad(where + "the backbone is not frozen");
    DPIPE_RETURN_IF_ERROR(
        CheckBytes(where, message,
                   cost_.OutputBytesPerSample(message.component()) * SamplesIn(message).size()));
    if (message.kind() == Instruction::SEND) return frozen_.Send(where, message);
    return frozen_.Receive(where, message);
  }

  absl::Status CheckBytes(const std::string& where, const Instruction& instruction,
                          int64_t expected) const {
    if (instruction.bytes() == expected) return absl::OkStatus();
    return Bad(absl::StrCat(where, "bytes is ", instruction.bytes(), " and must be ", expected));
  }

  absl::Status Reduce(const std::string& where, const Instruction& reduce) {
    const LayerRange layers = LayersIn(reduce);
    if (!IsReplicated()) return Bad(where + "no other rank holds the stage");
    DPIPE_RETURN_IF_ERROR(CheckBytes(where, reduce, cost_.GradientBytes(layers)));
    for (int l = layers.begin; l < layers.end; ++l) {
      const int done = next_weight_[l - place_.layers.begin];
      if (done != plan_.num_micro_batches()) {
        return Bad(absl::StrCat(where, "layer ", l, " has the gradients of ", done, " of ",
                                plan_.num_micro_batches(), " micro-batches"));
      }
      if (reduced_[l - place_.layers.begin]) {
        return Bad(absl::StrCat(where, "layer ", l, " is reduced already"));
      }
      reduced_[l - place_.layers.begin] = true;
    }
    reductions_.push_back(layers);
    return absl::OkStatus();
  }

  absl::Status OptimizerStep(const std::string& where) {
    for (int m = 0; m < plan_.num_micro_batches(); ++m) {
      if (micro_batches_[m].gradient_layer == place_.layers.begin) continue;
      return Bad(absl::StrCat(where, "gradients of micro-batch ", m, " have come down to layer ",
                              micro_batches_[m].gradient_layer, ", not to ", place_.layers.begin));
    }
    for (int l = place_.layers.begin; l < place_.layers.end; ++l) {
      const int done = next_weight_[l - place_.layers.begin];
      if (done != plan_.num_micro_batches()) {
        return Bad(absl::StrCat(where, "layer ", l, " has the gradients of ", done, " of ",
                                plan_.num_micro_batches(), " micro-batches"));
      }
      if (IsReplicated() && !reduced_[l - place_.layers.begin]) {
        return Bad(absl::StrCat(where, "layer ", l, " is not reduced over the ",
                                plan_.stages(place_.stage).ranks_size(), " ranks of stage ",
                                place_.stage));
      }
    }
    stepped_ = true;
    return absl::OkStatus();
  }

  const Plan& plan_;
  const PlanShape& shape_;
  const CostModel& cost_;
  const int rank_;
  const RankPlace& place_;
  FrozenLedger frozen_;
  std::vector<MicroBatch> micro_batches_;
  std::vector<int>
      next_weight_;  // the micro-batch whose weight gradient is next, by layer of the stage
  std::vector<bool> reduced_;  // likewise
  std::vector<LayerRange> reductions_;
  std::vector<int> flushes_;
  bool stepped_ = false;
};

// Every rank of a stage reduces the same layers in the same order: a collective has no other name.
absl::Status CheckReductions(const Plan& plan,
                             const std::vector<std::vector<LayerRange>>& reductions) {
  for (const Stage& stage : plan.stages()) {
    const int first = stage.ranks(0);
    for (int rank : stage.ranks()) {
      if (reductions[rank] == reductions[first]) continue;
      size_t i = 0;
      while (i < reductions[rank].size() && i < reductions[first].size() &&
             reductions[rank][i] == reductions[first][i]) {
        ++i;
      }
      const auto layers = [i](const std::vector<LayerRange>& list) {
        return i < list.size() ? list[i].ToString() : std::string("nothing");
      };
      return Bad(absl::StrCat("stage ", stage.id(), ": REDUCE_GRADS number ", i, " is of layers ",
                              layers(reductions[first]), " on rank ", first, " and of ",
                              layers(reductions[rank]), " on rank ", rank));
    }
  }
  return absl::OkStatus();
}

// A flush waits for every rank's, so all have the same ones.
absl::Status CheckFlushes(const std::vector<std::vector<int>>& flushes) {
  for (size_t r = 1; r < flushes.size(); ++r) {
    if (flushes[r] == flushes[0]) continue;
    return Bad(absl::StrCat("rank ", r, " has ", flushes[r].size(), " FLUSHes and rank 0 has ",
                            flushes[0].size(), ", or their step_offsets differ"));
  }
  return absl::OkStatus();
}

absl::Status CheckComputedOnce(const Plan& plan, const CostModel& cost,
                               const std::vector<std::vector<int>>& computed) {
  const int expected = plan.cached_frozen_outputs() ? 0 : 1;
  for (int component : cost.frozen_components()) {
    for (int n = 0; n < plan.global_batch(); ++n) {
      if (computed[component][n] == expected) continue;
      return Bad(absl::StrCat("component ", component, " '", plan.components(component).name(),
                              "', sample ", n, ": computed ", computed[component][n],
                              " times and must be ", expected));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyPlan(const Plan& plan, const CostModel& cost) {
  DPIPE_ASSIGN_OR_RETURN(const PlanShape shape, PlanShape::Create(plan, cost));
  std::vector<std::vector<int>> computed(plan.components_size(),
                                         std::vector<int>(plan.global_batch(), 0));
  std::vector<std::vector<LayerRange>> reductions;
  std::vector<std::vector<int>> flushes;
  for (int r = 0; r < plan.devices_size(); ++r) {
    for (int i = 0; i < plan.devices(r).instructions_size(); ++i) {
      DPIPE_RETURN_IF_ERROR(CheckFields(plan, shape, r, i));
    }
    RankWalk walk(plan, shape, cost, r);
    DPIPE_RETURN_IF_ERROR(walk.Run(&computed));
    reductions.push_back(walk.reductions());
    flushes.push_back(walk.flushes());
  }
  DPIPE_RETURN_IF_ERROR(CheckReductions(plan, reductions));
  DPIPE_RETURN_IF_ERROR(CheckFlushes(flushes));
  DPIPE_RETURN_IF_ERROR(CheckComputedOnce(plan, cost, computed));
  DPIPE_RETURN_IF_ERROR(CheckRendezvous(plan));
  return CheckMemory(plan, cost);
}

absl::Status VerifyPlan(const Plan& plan, const ModelProfile& profile, const ClusterSpec& cluster) {
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost, CostModel::Create(profile, cluster));
  return VerifyPlan(plan, cost);
}

}  // namespace dpipe
