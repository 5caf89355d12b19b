// The runtime on whole plans: order, faults, deadlines.
#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "core/report/timeline/trace_index.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/toy_job.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

// A provider's fault for a certain sample of a certain step.
enum class Fault { kNone, kError, kException, kWrongShape };

class FaultyInputs : public InputProvider {
 public:
  FaultyInputs(InputProvider* inputs, Fault fault) : inputs_(inputs), fault_(fault) {}

  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override {
    if (step == 3 && samples.Contains(5) && input == "pixels") {
      if (fault_ == Fault::kError)
        return absl::DataLossError("image broken.png ends after 12 bytes");
      if (fault_ == Fault::kException) throw std::runtime_error("thrown by a loader");
      if (fault_ == Fault::kWrongShape) return Tensor::Zeros(device, {1, 3}, DType::kF32);
    }
    return inputs_->Load(component, input, step, samples, device);
  }

 private:
  InputProvider* const inputs_;
  const Fault fault_;
};

class RuntimeTest : public ::testing::Test {
 protected:
  RuntimeTest() : toy_(2) { job_.deadline = absl::Seconds(20); }

  Plan MakePlan(const std::string& strategy, int num_micro_batches = 4) {
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = 2;
    request.num_stages = strategy == "data_parallel" ? 1 : 2;
    request.num_micro_batches = num_micro_batches;
    const auto profile = testlib::SyntheticProfile(model_, DType::kF32, 1, {1, 2, 4, 8}, 3);
    auto plan = testlib::MakeTestPlan(profile, request);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return std::move(plan).value();
  }

  absl::Status TrainWith(Fault fault, const std::string& strategy) {
    FaultyInputs faulty(&toy_.inputs(), fault);
    TrainingJob job = job_;
    job.inputs = &faulty;
    return testlib::Train(job, MakePlan(strategy), /*steps=*/8).status();
  }

  testlib::ToyJob toy_;
  const nn::Model& model_ = toy_.model();
  TrainingJob& job_ = toy_.job();
};

TEST_F(RuntimeTest, ExecutesInThePlansOrder) {
  for (const char* strategy : {"data_parallel", "gpipe", "1f1b", "diffusionpipe"}) {
    const Plan plan = MakePlan(strategy);
    const auto outcome = testlib::Train(job_, plan, /*steps=*/4);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<std::pair<int, int>> executed;  // (step, instruction), compute stream
      Nanos last_end = 0;
      for (const TraceEvent& event : outcome->trace.events()) {
        if (event.rank() != rank || event.stream() != TraceEvent::COMPUTE) continue;
        EXPECT_GE(event.start_ns(), last_end) << strategy << ": two computations at once";
        last_end = event.end_ns();
        const std::pair<int, int> id(event.step(), event.instruction());
        // An OPTIMIZER_STEP is two events: its norm and, after everyone's norm, its update.
        if (executed.empty() || executed.back() != id) executed.push_back(id);
      }
      std::vector<std::pair<int, int>> expected;
      for (int step = 0; step < 4; ++step) {
        for (int i = 0; i < plan.devices(rank).instructions_size(); ++i) {
          const Instruction& instruction = plan.devices(rank).instructions(i);
          const bool compute = instruction.kind() != Instruction::SEND &&
                               instruction.kind() != Instruction::RECV &&
                               instruction.kind() != Instruction::REDUCE_GRADS;
          const bool skipped = step == 3 && instruction.step_offset() > 0;
          if (compute && !skipped) expected.emplace_back(step, i);
        }
      }
      EXPECT_EQ(executed, expected) << strategy << ", rank " << rank;
    }
  }
}

TEST_F(RuntimeTest, RecordsMessagesAndMemory) {
  for (const char* strategy : {"gpipe", "1f1b", "diffusionpipe"}) {
    SCOPED_TRACE(strategy);
    const auto outcome = testlib::Train(job_, MakePlan(strategy), /*steps=*/4);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    const Trace& trace = outcome->trace;
    const auto index = report::TraceIndex::Create(trace);
    ASSERT_TRUE(index.ok()) << index.status();
    size_t num_sends = 0;
    for (const TraceEvent& event : trace.events()) {
      num_sends += event.stream() == TraceEvent::SEND_STREAM;
    }
    EXPECT_GT(num_sends, 0u);
    EXPECT_EQ(index->messages().size(), num_sends) << "each has been received";
    for (const report::TraceIndex::Message& message : index->messages()) {
      const TraceEvent& send = *index->events()[message.send].event;
      const TraceEvent& receive = *index->events()[message.recv].event;
      EXPECT_EQ(receive.stream(), TraceEvent::RECV_STREAM);
      EXPECT_NE(receive.rank(), send.rank());
      EXPECT_GE(receive.start_ns(), send.start_ns());
    }
    Nanos last_ns = 0;
    std::map<int, std::set<int64_t>> bytes;  // by rank
    for (const MemorySample& sample : trace.memory()) {
      EXPECT_GE(sample.time_ns(), last_ns);
      last_ns = sample.time_ns();
      EXPECT_LE(sample.bytes(), trace.peak_memory_bytes(sample.rank()));
      bytes[sample.rank()].insert(sample.bytes());
    }
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_GT(bytes[rank].size(), 2u) << "activations come and go";
      EXPECT_GT(*bytes[rank].begin(), 0) << "parameters stay";
    }
  }
}

// Inserts a FLUSH before and after the exchange of the next step's frozen outputs.
int AddFlushes(Plan* plan) {
  int messages = 0;
  Instruction flush;
  flush.set_kind(Instruction::FLUSH);
  flush.set_stage(-1);
  flush.set_component(-1);
  flush.set_micro_batch(-1);
  flush.set_peer(-1);
  flush.set_peer_stage(-1);
  flush.set_step_offset(1);
  for (DeviceProgram& program : *plan->mutable_devices()) {
    DeviceProgram flushed;
    flushed.set_rank(program.rank());
    bool before_exchange = true;
    for (const Instruction& instruction : program.instructions()) {
      const bool exchange =
          instruction.payload() == Instruction::FROZEN_OUTPUT && instruction.step_offset() == 1;
      const bool optimizer = instruction.kind() == Instruction::OPTIMIZER_STEP;
      if (before_exchange && (exchange || optimizer)) {
        *flushed.add_instructions() = flush;
        before_exchange = false;
      }
      messages += exchange;
      if (optimizer) *flushed.add_instructions() = flush;
      *flushed.add_instructions() = instruction;
    }
    program = flushed;
  }
  return messages;
}

TEST_F(RuntimeTest, FlushesChangeNothingThatIsComputed) {
  Plan plan = MakePlan("diffusionpipe");
  const auto expected = testlib::Train(job_, plan, /*steps=*/6);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_GT(AddFlushes(&plan), 0);
  const auto outcome = testlib::Train(job_, plan, /*steps=*/6);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(testlib::FirstDifference(*expected, *outcome), "");
}

TEST_F(RuntimeTest, ErrorOfOneRankEndsAllWithItsMessage) {
  for (const char* strategy : {"data_parallel", "gpipe", "1f1b", "diffusionpipe"}) {
    const absl::Status status = TrainWith(Fault::kError, strategy);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << strategy << ": " << status;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("broken.png ends after 12 bytes"));
    EXPECT_THAT(message, HasSubstr("LOAD_BATCH for encoder"));
    EXPECT_EQ(message.find("rank"), message.rfind("rank")) << "reported twice: " << message;
  }
}

TEST_F(RuntimeTest, AnExceptionIsAnErrorToo) {
  for (const char* strategy : {"data_parallel", "1f1b", "diffusionpipe"}) {
    const absl::Status status = TrainWith(Fault::kException, strategy);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << strategy;
    EXPECT_THAT(std::string(status.message()), HasSubstr("thrown by a loader"));
  }
}

TEST_F(RuntimeTest, AWrongInputIsNamed) {
  const absl::Status status = TrainWith(Fault::kWrongShape, "diffusionpipe");
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("[1, 3]"));
}

// An unverified plan with a missing message ends at the deadline and names the message.
TEST_F(RuntimeTest, AMissingMessageEndsByDeadline) {
  Plan plan = MakePlan("1f1b");
  auto* instructions = plan.mutable_devices(0)->mutable_instructions();
  for (int i = 0; i < instructions->size(); ++i) {
    if (instructions->Get(i).kind() == Instruction::SEND &&
        instructions->Get(i).payload() == Instruction::ACTIVATION) {
      instructions->DeleteSubrange(i, 1);
      break;
    }
  }
  job_.deadline = absl::Milliseconds(200);
  const absl::Status status = testlib::Train(job_, plan, /*steps=*/2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("waited 200ms for"));
}

TEST_F(RuntimeTest, PlansForOthersAreRefused) {
  Plan plan = MakePlan("1f1b");
  plan.set_num_devices(3);
  EXPECT_THAT(std::string(testlib::Train(job_, plan, 1).status().message()),
              HasSubstr("the plan is for 3 devices, but there are 2 workers"));
  plan = MakePlan("1f1b");
  plan.mutable_components(1)->set_num_layers(77);
  EXPECT_THAT(std::string(testlib::Train(job_, plan, 1).status().message()),
              HasSubstr("component 1 is text with 77 layers in the plan, but text with 4"));
}

// Memory does not grow from run to run. Peaks vary by the few tensors that a receiver releases
// sooner or later. One leaked tensor per step, 64 bytes or more, would add at least 8 % over 200
// steps.
TEST_F(RuntimeTest, MemoryIsReleased) {
  auto session = StartSession(job_, MakePlan("diffusionpipe"));
  ASSERT_TRUE(session.ok()) << session.status();
  int64_t first = 0;
  for (int run = 0; run < 40; ++run) {
    const auto result = (*session)->Run(5, /*is_last=*/false, /*record=*/false);
    ASSERT_TRUE(result.ok()) << result.status();
    const int64_t peak = result->peak_memory_bytes[0];
    if (run < 3) first = std::max(first, peak);
    EXPECT_LT(peak, first * 1.05) << "run " << run;
  }
}

}  // namespace
}  // namespace dpipe
