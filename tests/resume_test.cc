// Checks that a run that is saved, ended and resumed computes the same as an uninterrupted one. By
// the same plan, and by any plan that promises one device's bits, it is bit-identical. It agrees to
// rounding if gradients are added in another order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/train/checkpoint/checkpoint_reader.h"
#include "core/train/checkpoint/checkpoint_writer.h"
#include "gtest/gtest.h"
#include "tests/testlib/toy_job.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

constexpr int kSteps = 9;
constexpr int kGlobalBatch = 8;

// All numbers of a state: whole tensors by "kind parameter".
using WholeState = std::map<std::string, std::vector<float>>;

WholeState WholeOf(const SessionState& state) {
  WholeState whole;
  for (const StateTensor& tensor : state.tensors) {
    std::vector<float>& values = whole[tensor.kind + " " + tensor.parameter];
    EXPECT_EQ(static_cast<int64_t>(values.size()), tensor.begin);
    values.insert(values.end(), tensor.part.span<float>().begin(), tensor.part.span<float>().end());
  }
  return whole;
}

std::string FirstDifference(const WholeState& a, const WholeState& b) {
  if (a.size() != b.size()) return absl::StrCat(a.size(), " and ", b.size(), " tensors");
  for (const auto& [name, values] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.size() != values.size()) return name;
    const size_t bytes = values.size() * sizeof(float);
    if (std::memcmp(values.data(), other->second.data(), bytes) != 0) return name;
  }
  return "";
}

double LargestRelativeDifference(const WholeState& a, const WholeState& b) {
  double largest = 0;
  for (const auto& [name, values] : a) {
    const std::vector<float>& other = b.at(name);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      difference += (values[i] - other[i]) * (values[i] - other[i]);
      norm += values[i] * values[i];
    }
    if (norm > 0) largest = std::max(largest, std::sqrt(difference / norm));
  }
  return largest;
}

struct Outcome {
  std::vector<double> losses;
  WholeState state;
};

struct PlanChoice {
  std::string strategy;
  int num_devices;
  int num_stages;  // 0: the search's choice
};

std::string Name(const PlanChoice& choice) {
  return absl::StrCat(choice.strategy, " on ", choice.num_devices);
}

// The objects of a process, created again for each part of a run.
class Process {
 public:
  Process(const PlanChoice& choice, DType dtype) : toy_(choice.num_devices, dtype) {
    job_.optimizer.learning_rate.shape = LrSchedule::Shape::kCosine;
    job_.optimizer.learning_rate.total_steps = kSteps;
    job_.optimizer.max_grad_norm = 0.5;
    job_.optimizer.ema_decay = 0.9;
    testlib::PlanRequest request;
    request.strategy = choice.strategy;
    request.num_devices = choice.num_devices;
    request.global_batch = kGlobalBatch;
    request.micro_batch_size = 2;
    request.num_stages = choice.num_stages;
    auto plan = testlib::MakeTestPlan(
        testlib::SyntheticProfile(model_, dtype, /*frozen_quantum=*/1, {1, 2, 4, 8}, /*seed=*/3),
        request);
    EXPECT_TRUE(plan.ok()) << Name(choice) << ": " << plan.status();
    plan_ = *std::move(plan);
  }

  const Plan& plan() const { return plan_; }
  void set_forgotten_updates(int count) { forgotten_updates_ = count; }

  // Runs steps [first, end). Loads from `folder` if first > 0, and saves there unless it is the
  // end.
  absl::Status Run(int first, int end, const std::string& folder, Outcome* outcome) {
    job_.first_step = first;
    DPIPE_ASSIGN_OR_RETURN(auto session, StartSession(job_, plan_));
    if (first > 0) {
      DPIPE_ASSIGN_OR_RETURN(const auto saved, Checkpoint::Open(folder));
      DPIPE_RETURN_IF_ERROR(
          session->Restore(saved->info().num_updates - forgotten_updates_, saved->reader()));
    }
    DPIPE_ASSIGN_OR_RETURN(const RunResult run,
                           session->Run(end - first, end == kSteps, /*record=*/false));
    for (const StepResult& step : run.steps) outcome->losses.push_back(step.loss);
    CheckpointContent content;
    DPIPE_ASSIGN_OR_RETURN(content.state, session->State());
    EXPECT_EQ(content.state.next_step, end);
    outcome->state = WholeOf(content.state);
    if (end == kSteps) return absl::OkStatus();
    content.info.step = content.state.next_step;
    content.info.num_updates = content.state.num_updates;
    return WriteCheckpoint(folder, content).status();
  }

 private:
  testlib::ToyJob toy_;
  const nn::Model& model_ = toy_.model();
  TrainingJob& job_ = toy_.job();
  Plan plan_;
  int forgotten_updates_ = 0;
};

// Runs parts: part i continues until step ends[i], as parts[i] specifies.
absl::StatusOr<Outcome> RunInParts(const std::vector<PlanChoice>& parts,
                                   const std::vector<int>& ends, DType dtype) {
  const std::string folder = ::testing::TempDir() + "/resumed";
  Outcome outcome;
  int step = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    DPIPE_RETURN_IF_ERROR(Process(parts[i], dtype).Run(step, ends[i], folder, &outcome));
    step = ends[i];
  }
  return outcome;
}

bool ReducesGradients(const PlanChoice& choice) {
  const Plan plan = Process(choice, DType::kF32).plan();
  for (const DeviceProgram& device : plan.devices()) {
    for (const Instruction& instruction : device.instructions()) {
      if (instruction.kind() == Instruction::REDUCE_GRADS) return true;
    }
  }
  return false;
}

void ExpectSame(const Outcome& expected, const Outcome& actual, const std::string& what) {
  EXPECT_EQ(actual.losses, expected.losses) << what;
  EXPECT_EQ(FirstDifference(actual.state, expected.state), "") << what;
}

class SamePlanTest : public ::testing::TestWithParam<std::tuple<std::string, int, DType>> {};

TEST_P(SamePlanTest, IsBitIdenticalWhereverItIsCut) {
  const auto& [strategy, num_devices, dtype] = GetParam();
  const PlanChoice choice = {strategy, num_devices, 0};
  const auto whole = RunInParts({choice}, {kSteps}, dtype);
  ASSERT_TRUE(whole.ok()) << whole.status();
  // Weights, both moments, averages.
  EXPECT_EQ(whole->state.size() % 4, 0u);
  EXPECT_EQ(whole->state.count("average " + whole->state.begin()->first.substr(8)), 1u);
  const auto once = RunInParts({choice, choice}, {4, kSteps}, dtype);
  ASSERT_TRUE(once.ok()) << once.status();
  ExpectSame(*whole, *once, "after 4 steps");
  const auto often = RunInParts({choice, choice, choice}, {1, 2, kSteps}, dtype);
  ASSERT_TRUE(often.ok()) << often.status();
  ExpectSame(*whole, *often, "after 1 and 2 steps");
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, SamePlanTest,
    ::testing::Combine(::testing::Values("data_parallel", "zero3", "gpipe", "diffusionpipe",
                                         "chimera", "opendiffusionpipe", "pipedream_stashing",
                                         "xpipe", "hetpipe"),
                       ::testing::Values(2), ::testing::Values(DType::kF32, DType::kBf16)),
    [](const ::testing::TestParamInfo<SamePlanTest::ParamType>& info) {
      return std::get<0>(info.param) + "_" + std::string(DTypeName(std::get<2>(info.param)));
    });

// From each of these to every other: other strategies, stages, devices, shards, directions.
TEST(OtherPlanTest, ContinuesWithTheSameNumbers) {
  const std::vector<PlanChoice> all = {
      {"data_parallel", 1, 1}, {"data_parallel", 2, 1}, {"gpipe", 2, 2},  {"1f1b", 3, 3},
      {"diffusionpipe", 4, 2}, {"zero3", 4, 1},         {"chimera", 2, 0}};
  const auto expected = RunInParts({all[0]}, {kSteps}, DType::kF32);
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::vector<bool> reduces;
  for (const PlanChoice& choice : all) reduces.push_back(ReducesGradients(choice));
  int bit_identical = 0;
  for (size_t a = 0; a < all.size(); ++a) {
    const std::string folder = absl::StrCat(::testing::TempDir(), "/from_", a);
    Outcome first;
    const absl::Status saved = Process(all[a], DType::kF32).Run(0, 4, folder, &first);
    ASSERT_TRUE(saved.ok()) << saved;
    for (size_t b = 0; b < all.size(); ++b) {
      const std::string what = Name(all[a]) + " -> " + Name(all[b]);
      Outcome actual = first;
      const absl::Status ran = Process(all[b], DType::kF32).Run(4, kSteps, folder, &actual);
      ASSERT_TRUE(ran.ok()) << what << ": " << ran;
      if (!reduces[a] && !reduces[b]) {
        ExpectSame(*expected, actual, what);
        ++bit_identical;
        continue;
      }
      ASSERT_EQ(actual.losses.size(), expected->losses.size()) << what;
      for (int i = 0; i < kSteps; ++i) {
        EXPECT_NEAR(actual.losses[i] / expected->losses[i], 1, 1e-5) << what << ", step " << i;
      }
      EXPECT_LT(LargestRelativeDifference(expected->state, actual.state), 2e-4) << what;
    }
  }
  EXPECT_GE(bit_identical, 9);
}

// The checks above can fail: they detect a run that resumes at another step, or with a wrong number
// of optimizer updates.
TEST(OtherPlanTest, WrongContinuationIsDetected) {
  const PlanChoice choice = {"1f1b", 2, 2};
  const auto expected = RunInParts({choice}, {kSteps}, DType::kF32);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const std::string folder = ::testing::TempDir() + "/wrong";
  for (int forgotten : {0, 1, 2}) {
    Outcome outcome;
    ASSERT_TRUE(Process(choice, DType::kF32).Run(0, 4, folder, &outcome).ok());
    const int next = forgotten == 1 ? 3 : 4;
    Process second(choice, DType::kF32);
    if (forgotten == 2) second.set_forgotten_updates(1);
    ASSERT_TRUE(second.Run(next, kSteps, folder, &outcome).ok());
    EXPECT_EQ(FirstDifference(expected->state, outcome.state) == "", forgotten == 0) << forgotten;
  }
}

}  // namespace
}  // namespace dpipe
