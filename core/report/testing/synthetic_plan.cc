#include "core/report/testing/synthetic_plan.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/report/testing/synthetic_trace.h"
#include "core/report/timeline/bubbles.h"

namespace dpipe::report {
namespace {

constexpr int kGlobalBatch = 32;
constexpr int kBackbone = 0, kVae = 1, kTextEncoder = 2;
constexpr int kNumLayers[] = {40, 12, 8};  // by component
// Per layer and sample.
constexpr Nanos kForwardNs = 60 * kNanosPerMicro;
constexpr Nanos kVaeNs = 150 * kNanosPerMicro;
constexpr Nanos kTextEncoderNs = 40 * kNanosPerMicro;
constexpr Nanos kTransferNs = 350 * kNanosPerMicro;
constexpr Nanos kReduceNs = 11 * kNanosPerMilli;
constexpr Nanos kOptimizerNs = 3 * kNanosPerMilli;

Instruction Make(Instruction::Kind kind, int stage, int micro_batch, int samples_begin,
                 int samples_end) {
  Instruction instruction;
  instruction.set_kind(kind);
  instruction.set_stage(stage);
  instruction.set_component(-1);
  instruction.set_micro_batch(micro_batch);
  instruction.mutable_samples()->set_begin(samples_begin);
  instruction.mutable_samples()->set_end(samples_end);
  instruction.set_peer(-1);
  instruction.set_peer_stage(-1);
  return instruction;
}

Instruction WithLayers(Instruction instruction, int begin, int end) {
  instruction.mutable_layers()->set_begin(begin);
  instruction.mutable_layers()->set_end(end);
  return instruction;
}

Instruction Message(Instruction::Kind kind, Instruction::Payload payload, int rank, int peer,
                    int micro_batch, int samples_begin, int samples_end) {
  Instruction message = Make(kind, rank, micro_batch, samples_begin, samples_end);
  message.set_payload(payload);
  message.set_peer(peer);
  message.set_peer_stage(peer);
  message.set_bytes(int64_t{65536} * (samples_end - samples_begin));
  return message;
}

using Program = std::vector<Instruction>;

class Builder {
 public:
  explicit Builder(const SyntheticOptions& options) : options_(options) {
    const bool data_parallel = options.strategy == "data_parallel";
    DPIPE_CHECK(data_parallel || options.strategy == "gpipe" || options.strategy == "1f1b" ||
                options.strategy == "diffusionpipe")
        << options.strategy;
    num_stages_ = data_parallel ? 1 : options.num_devices;
    num_micro_batches_ = data_parallel ? 1 : options.num_micro_batches;
  }

  Plan Build() {
    for (int rank = 0; rank < options_.num_devices; ++rank) {
      programs_.push_back(num_stages_ == 1 ? DataParallelProgram(rank) : PipelineProgram(rank));
    }
    if (options_.strategy == "diffusionpipe") {
      Fill();
    } else {
      for (int rank = 0; rank < options_.num_devices; ++rank) PutFrozenFirst(rank);
    }
    return ToPlan();
  }

 private:
  // Later stages are slightly shorter, since partitions of real models are uneven.
  int StageBegin(int stage) const {
    return stage == num_stages_ ? kNumLayers[kBackbone]
                                : stage * kNumLayers[kBackbone] / num_stages_ + (stage > 0 ? 1 : 0);
  }

  std::pair<int, int> SamplesOfRank(int rank) const {
    return {rank * kGlobalBatch / options_.num_devices,
            (rank + 1) * kGlobalBatch / options_.num_devices};
  }

  Program DataParallelProgram(int rank) const {
    const auto [begin, end] = SamplesOfRank(rank);
    Program program = {WithLayers(Make(Instruction::FORWARD, 0, 0, begin, end), 0, 40)};
    for (int layer = 40; layer > 0; layer -= 10) {
      program.push_back(
          WithLayers(Make(Instruction::BACKWARD, 0, 0, begin, end), layer - 10, layer));
      program.push_back(
          WithLayers(Make(Instruction::REDUCE_GRADS, 0, -1, 0, 0), layer - 10, layer));
      program.back().set_bytes(int64_t{1} << 22);
    }
    program.push_back(Make(Instruction::OPTIMIZER_STEP, -1, -1, 0, 0));
    return program;
  }

  void AppendPass(int rank, Instruction::Kind kind, int micro_batch, Program* program) const {
    const int size = kGlobalBatch / num_micro_batches_;
    const int begin = micro_batch * size, end = begin + size;
    const bool forward = kind == Instruction::FORWARD;
    const int from = forward ? rank - 1 : rank + 1, to = forward ? rank + 1 : rank - 1;
    const auto payload = forward ? Instruction::ACTIVATION : Instruction::GRADIENT;
    if (from >= 0 && from < num_stages_) {
      program->push_back(Message(Instruction::RECV, payload, rank, from, micro_batch, begin, end));
    }
    program->push_back(WithLayers(Make(kind, rank, micro_batch, begin, end), StageBegin(rank),
                                  StageBegin(rank + 1)));
    if (to >= 0 && to < num_stages_) {
      program->push_back(Message(Instruction::SEND, payload, rank, to, micro_batch, begin, end));
    }
  }

  Program PipelineProgram(int rank) const {
    const int warm_up = options_.strategy == "gpipe"
                            ? num_micro_batches_
                            : std::min(num_micro_batches_, num_stages_ - rank);
    Program program;
    int forward = 0;
    while (forward < warm_up) AppendPass(rank, Instruction::FORWARD, forward++, &program);
    for (int backward = 0; backward < num_micro_batches_; ++backward) {
      AppendPass(rank, Instruction::BACKWARD, backward, &program);
      if (forward < num_micro_batches_) AppendPass(rank, Instruction::FORWARD, forward++, &program);
    }
    program.push_back(Make(Instruction::OPTIMIZER_STEP, -1, -1, 0, 0));
    return program;
  }

  // Returns one rank's frozen work in order, in pieces of a few layers.
  Program FrozenWork(int rank, int vae_layers_a_piece, int step_offset) const {
    const auto [begin, end] = SamplesOfRank(rank);
    Program work = {Make(Instruction::LOAD_BATCH, -1, -1, begin, end)};
    work.back().set_component(kVae);
    for (const auto& [component, piece] :
         {std::pair(kTextEncoder, 4), std::pair(kVae, vae_layers_a_piece)}) {
      for (int layer = 0; layer < kNumLayers[component]; layer += piece) {
        work.push_back(WithLayers(Make(Instruction::FROZEN_FORWARD, -1, -1, begin, end), layer,
                                  std::min(layer + piece, kNumLayers[component])));
        work.back().set_component(component);
      }
    }
    for (Instruction& instruction : work) instruction.set_step_offset(step_offset);
    return work;
  }

  // Sends text embeddings to every device and latents to the first.
  Program Exchange(int rank, int step_offset) const {
    Program group;
    for (int peer = 0; peer < options_.num_devices; ++peer) {
      if (peer == rank) continue;
      for (const auto kind : {Instruction::SEND, Instruction::RECV}) {
        const auto [begin, end] = SamplesOfRank(kind == Instruction::SEND ? rank : peer);
        const int receiver = kind == Instruction::SEND ? peer : rank;
        for (const int component : {kTextEncoder, kVae}) {
          if (component == kVae && receiver != 0) continue;
          Instruction message =
              Message(kind, Instruction::FROZEN_OUTPUT, rank, peer, -1, begin, end);
          message.set_component(component);
          message.set_step_offset(step_offset);
          group.push_back(message);
        }
      }
    }
    return group;
  }

  void PutFrozenFirst(int rank) {
    Program program = FrozenWork(rank, 6, 0);
    if (num_stages_ > 1) {
      for (Instruction& message : Exchange(rank, 0)) program.push_back(message);
    }
    program.insert(program.end(), programs_[rank].begin(), programs_[rank].end());
    programs_[rank] = std::move(program);
  }

  // Fills each idle interval of the unfilled step with the pieces that fit: whole pieces, then the
  // next piece on half of its samples. The remaining work precedes the optimizer.
  void Fill() {
    const Plan unfilled = ToPlan();
    const Trace trace = ReplaySyntheticPlan(
        unfilled, {options_.strategy, options_.num_devices, options_.num_micro_batches, 1, 0, 1});
    for (int rank = 0; rank < options_.num_devices; ++rank) {
      std::vector<Nanos> start_ns(programs_[rank].size());
      std::vector<Nanos> end_ns(programs_[rank].size());
      for (const TraceEvent& event : trace.events()) {
        if (event.rank() != rank) continue;
        start_ns[event.instruction()] = event.start_ns();
        end_ns[event.instruction()] = event.end_ns();
      }
      programs_[rank] = Filled(unfilled, rank, start_ns, end_ns);
    }
  }

  Program Filled(const Plan& plan, int rank, const std::vector<Nanos>& start_ns,
                 const std::vector<Nanos>& end_ns) const {
    Program work = FrozenWork(rank, 1, 1);
    std::reverse(work.begin(), work.end());  // the next piece is at the back
    const Program& unfilled = programs_[rank];
    Program filled;
    Program group;  // receives that the next instruction waits for
    Nanos idle_since = 0;
    for (size_t i = 0; i < unfilled.size(); ++i) {
      const Instruction& instruction = unfilled[i];
      if (instruction.kind() == Instruction::RECV) {
        group.push_back(instruction);
        continue;
      }
      if (instruction.kind() != Instruction::SEND) {
        FillGap(plan, start_ns[i] - idle_since, &work, &filled);
        idle_since = end_ns[i];
      }
      if (instruction.kind() == Instruction::OPTIMIZER_STEP) {
        filled.insert(filled.end(), work.rbegin(), work.rend());
        for (const Instruction& message : Exchange(rank, 1)) filled.push_back(message);
      }
      filled.insert(filled.end(), group.begin(), group.end());
      group.clear();
      filled.push_back(instruction);
    }
    return filled;
  }

  static void FillGap(const Plan& plan, Nanos gap_ns, Program* work, Program* filled) {
    while (!work->empty() && SyntheticDuration(plan, work->back()) <= gap_ns) {
      gap_ns -= SyntheticDuration(plan, work->back());
      filled->push_back(work->back());
      work->pop_back();
    }
    if (work->empty() || work->back().kind() != Instruction::FROZEN_FORWARD) return;
    Instruction part = work->back();
    const int middle = (part.samples().begin() + part.samples().end()) / 2;
    part.mutable_samples()->set_end(middle);
    if (middle == part.samples().begin() || SyntheticDuration(plan, part) > gap_ns) return;
    filled->push_back(part);
    work->back().mutable_samples()->set_begin(middle);
  }

  Plan ToPlan() const {
    Plan plan;
    plan.set_strategy(options_.strategy);
    plan.set_model("tiny_sd");
    plan.set_num_devices(options_.num_devices);
    plan.set_devices_per_pipeline(num_stages_);
    plan.set_global_batch(kGlobalBatch);
    plan.set_num_micro_batches(num_micro_batches_);
    plan.set_micro_batch_size(kGlobalBatch / num_micro_batches_ /
                              (options_.num_devices / num_stages_));
    plan.set_global_norm(true);
    for (const auto& [name, component] :
         {std::pair("unet", kBackbone), std::pair("vae_encoder", kVae),
          std::pair("text_encoder", kTextEncoder)}) {
      PlanComponent* added = plan.add_components();
      added->set_name(name);
      added->set_is_backbone(component == kBackbone);
      added->set_num_layers(kNumLayers[component]);
    }
    for (int id = 0; id < num_stages_; ++id) {
      Stage* stage = plan.add_stages();
      stage->set_id(id);
      stage->mutable_layers()->set_begin(StageBegin(id));
      stage->mutable_layers()->set_end(StageBegin(id + 1));
      for (int rank = 0; rank < options_.num_devices; ++rank) {
        if (num_stages_ == 1 || rank == id) stage->add_ranks(rank);
      }
    }
    for (int rank = 0; rank < options_.num_devices; ++rank) {
      DeviceProgram* program = plan.add_devices();
      program->set_rank(rank);
      for (const Instruction& instruction : programs_[rank])
        *program->add_instructions() = instruction;
    }
    return plan;
  }

  SyntheticOptions options_;
  int num_stages_;
  int num_micro_batches_;
  std::vector<Program> programs_;
};

// Takes the predictions from a run without jitter.
void Predict(const SyntheticOptions& options, Plan* plan) {
  SyntheticOptions exact = options;
  exact.jitter = 0;
  exact.num_steps = 1;
  const Trace trace = ReplaySyntheticPlan(*plan, exact);
  for (const TraceEvent& event : trace.events()) {
    Instruction* instruction =
        plan->mutable_devices(event.rank())->mutable_instructions(event.instruction());
    instruction->set_predicted_start_ns(event.start_ns());
    instruction->set_predicted_duration_ns(event.end_ns() - event.start_ns());
  }
  const auto index = TraceIndex::Create(trace);
  DPIPE_CHECK(index.ok()) << index.status();
  plan->mutable_prediction()->set_step_ns(trace.step_start_ns(1));
  plan->mutable_prediction()->set_bubble_ratio(BubbleRatio(DeviceTimes(*index, {0, 1})));
}

}  // namespace

Nanos SyntheticDuration(const Plan& plan, const Instruction& instruction) {
  const Nanos layers = instruction.layers().end() - instruction.layers().begin();
  const Nanos samples = instruction.samples().end() - instruction.samples().begin();
  switch (instruction.kind()) {
    case Instruction::LOAD_BATCH:
      return 20 * kNanosPerMicro * samples;
    case Instruction::FORWARD:
      return kForwardNs * layers * samples;
    case Instruction::BACKWARD:
      return 2 * kForwardNs * layers * samples;
    case Instruction::FROZEN_FORWARD:
      return (instruction.component() == kVae ? kVaeNs : kTextEncoderNs) * layers * samples;
    case Instruction::OPTIMIZER_STEP:
      return kOptimizerNs / plan.stages_size();
    case Instruction::REDUCE_GRADS:
      return kReduceNs;
    default:
      return kTransferNs;
  }
}

Plan MakeSyntheticPlan(const SyntheticOptions& options) {
  Plan plan = Builder(options).Build();
  Predict(options, &plan);
  return plan;
}

}  // namespace dpipe::report
