#include "core/report/testing/synthetic_trace.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/philox.h"

namespace dpipe::report {
namespace {

using MessageKey =
    std::tuple<int, int, int, int, int, int>;  // from, to, payload, micro-batch, component, samples

class Replay {
 public:
  Replay(const Plan& plan, const SyntheticOptions& options)
      : plan_(plan),
        jitter_(options.jitter),
        random_(options.seed, 0, 0, RandomPurpose::kTest),
        devices_(plan.devices_size()) {}

  Trace Run(int num_steps) {
    *trace_.mutable_plan() = plan_;
    trace_.set_source(jitter_ > 0 ? Trace::EXECUTED : Trace::SIMULATED);
    for (int step = 0; step < num_steps; ++step) RunStep(step);
    trace_.add_step_start_ns(now_ns_);
    std::stable_sort(
        trace_.mutable_events()->begin(), trace_.mutable_events()->end(),
        [](const TraceEvent& a, const TraceEvent& b) { return a.start_ns() < b.start_ns(); });
    for (int rank = 0; rank < plan_.devices_size(); ++rank) {
      trace_.add_peak_memory_bytes(int64_t{400'000'000} - rank * 40'000'000);
    }
    return std::move(trace_);
  }

 private:
  struct Device {
    int next = 0;          // next instruction
    Nanos compute_ns = 0;  // time from which each stream is free
    Nanos send_ns = 0;
    Nanos collective_ns = 0;
    Nanos data_ns = 0;  // arrival of all data received so far
  };

  void RunStep(int step) {
    step_ = step;
    trace_.add_step_start_ns(now_ns_);
    sent_.clear();
    for (Device& device : devices_) device = {0, now_ns_, now_ns_, now_ns_, now_ns_};
    bool progress = true;
    while (progress) {
      progress = RunAllTogether();
      for (int rank = 0; rank < static_cast<int>(devices_.size()); ++rank) {
        while (RunNext(rank)) progress = true;
      }
    }
    for (int rank = 0; rank < static_cast<int>(devices_.size()); ++rank) {
      DPIPE_CHECK_EQ(devices_[rank].next, plan_.devices(rank).instructions_size()) << "deadlock";
      now_ns_ = std::max(now_ns_, devices_[rank].compute_ns);
    }
  }

  const Instruction* Next(int rank) const {
    const DeviceProgram& program = plan_.devices(rank);
    return devices_[rank].next < program.instructions_size()
               ? &program.instructions(devices_[rank].next)
               : nullptr;
  }

  // True for instructions that wait for every device: the optimizer, and reductions (all devices
  // share a stage).
  static bool IsTogether(Instruction::Kind kind) {
    return kind == Instruction::OPTIMIZER_STEP || kind == Instruction::REDUCE_GRADS;
  }

  bool RunAllTogether() {
    Nanos start = 0;
    for (int rank = 0; rank < static_cast<int>(devices_.size()); ++rank) {
      const Instruction* next = Next(rank);
      if (next == nullptr || !IsTogether(next->kind())) return false;
      const Device& device = devices_[rank];
      start = std::max({start, device.compute_ns, device.data_ns, device.collective_ns});
    }
    for (int rank = 0; rank < static_cast<int>(devices_.size()); ++rank) {
      const bool optimizer = Next(rank)->kind() == Instruction::OPTIMIZER_STEP;
      const Nanos end = start + Duration(*Next(rank));
      Record(rank, optimizer ? TraceEvent::COMPUTE : TraceEvent::COLLECTIVE, start, end);
      (optimizer ? devices_[rank].compute_ns : devices_[rank].collective_ns) = end;
    }
    return true;
  }

  // Runs the next instruction of `rank` if its dependencies have been met.
  bool RunNext(int rank) {
    const Instruction* next = Next(rank);
    if (next == nullptr || IsTogether(next->kind())) return false;
    Device& device = devices_[rank];
    if (next->kind() == Instruction::RECV) {
      const auto found = sent_.find(Key(next->peer(), rank, *next));
      if (found == sent_.end()) return false;
      device.data_ns = std::max(device.data_ns, found->second.second);
      Record(rank, TraceEvent::RECV_STREAM, found->second.first, found->second.second);
    } else if (next->kind() == Instruction::SEND) {
      const Nanos start = std::max(device.compute_ns, device.send_ns);
      device.send_ns = start + Duration(*next);
      sent_[Key(rank, next->peer(), *next)] = {start, device.send_ns};
      Record(rank, TraceEvent::SEND_STREAM, start, device.send_ns);
    } else {
      const Nanos start = std::max(device.compute_ns, device.data_ns);
      device.compute_ns = start + Duration(*next);
      Record(rank, TraceEvent::COMPUTE, start, device.compute_ns);
    }
    return true;
  }

  static MessageKey Key(int from, int to, const Instruction& message) {
    return {from,
            to,
            message.payload(),
            message.micro_batch(),
            message.component(),
            message.samples().begin()};
  }

  Nanos Duration(const Instruction& instruction) {
    const double factor = 1 + jitter_ * (2 * random_.NextUniform() - 1);
    return static_cast<Nanos>(static_cast<double>(SyntheticDuration(plan_, instruction)) * factor);
  }

  void Record(int rank, TraceEvent::Stream stream, Nanos start_ns, Nanos end_ns) {
    TraceEvent* event = trace_.add_events();
    event->set_rank(rank);
    event->set_stream(stream);
    event->set_step(step_);
    event->set_instruction(devices_[rank].next++);
    event->set_start_ns(start_ns);
    event->set_end_ns(end_ns);
  }

  const Plan& plan_;
  const double jitter_;
  RandomStream random_;
  std::vector<Device> devices_;
  std::map<MessageKey, std::pair<Nanos, Nanos>> sent_;
  Trace trace_;
  Nanos now_ns_ = 0;
  int step_ = 0;
};

}  // namespace

Trace ReplaySyntheticPlan(const Plan& plan, const SyntheticOptions& options) {
  return Replay(plan, options).Run(options.num_steps);
}

Trace MakeSyntheticTrace(const SyntheticOptions& options) {
  return ReplaySyntheticPlan(MakeSyntheticPlan(options), options);
}

}  // namespace dpipe::report
