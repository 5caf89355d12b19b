// Sessions on devices whose memory the host cannot access. Everything is copied by the devices' own
// copies, messages are ordered by events, and the results are bit-identical to those of CPUs.
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/testlib/fake_gpus.h"
#include "tests/testlib/far_cpu.h"
#include "tests/testlib/process_sessions.h"
#include "tests/testlib/toy_model.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

// Counts the requests for each step, and how many of them come from threads that drive no device.
// Takes long enough for another thread to make progress meanwhile, however busy the machine.
class CountedInputs : public InputProvider {
 public:
  explicit CountedInputs(InputProvider* inputs) : inputs_(*inputs) {}

  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override {
    {
      absl::MutexLock lock(&mutex_);
      Count& count = counts_[step];
      ++count.all;
      count.ahead += ranks_.count(std::this_thread::get_id()) == 0 ? 1 : 0;
    }
    absl::SleepFor(absl::Milliseconds(1));
    return inputs_.Load(component, input, step, samples, device);
  }

  struct Count {
    int all = 0, ahead = 0;
  };
  Count CountOf(int64_t step) {
    absl::MutexLock lock(&mutex_);
    return counts_[step];
  }
  void SetRanks(std::vector<DeviceWorker*> workers) {
    RunOnAll(workers, [this](int) {
      absl::MutexLock lock(&mutex_);
      ranks_.insert(std::this_thread::get_id());
      return absl::OkStatus();
    });
  }

 private:
  InputProvider& inputs_;
  absl::Mutex mutex_;
  std::set<std::thread::id> ranks_;
  std::map<int64_t, Count> counts_;
};

class FarDeviceSessionTest : public ::testing::TestWithParam<std::string> {
 protected:
  FarDeviceSessionTest()
      : model_(testlib::MakeToyModel()),
        parameters_(testlib::MakeToyParameters(model_, 5)),
        inputs_(&model_, 9, DType::kF32) {}

  Plan MakePlan() const {
    testlib::PlanRequest request;
    request.strategy = GetParam();
    request.num_devices = 2;
    request.num_micro_batches = 2;
    const auto profile = testlib::SyntheticProfile(model_, DType::kF32, 1, {1, 2, 4, 8}, 3);
    auto plan = testlib::MakeTestPlan(profile, request);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return std::move(plan).value();
  }

  testlib::TrainingOutcome Train(const std::vector<std::shared_ptr<Device>>& devices,
                                 ConnectFn connect) {
    const auto workers = StartWorkers(devices);
    TrainingJob job;
    job.model = &model_;
    for (const auto& worker : workers) job.workers.push_back(worker.get());
    counted_ = std::make_unique<CountedInputs>(&inputs_);
    counted_->SetRanks(job.workers);
    job.inputs = counted_.get();
    job.frozen_parameters = parameters_.frozen_pointers;
    job.backbone_parameters = nn::SourceOf(parameters_.backbone);
    job.connect = std::move(connect);
    auto outcome = testlib::Train(job, MakePlan(), /*steps=*/4, /*steps_per_run=*/2);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return std::move(outcome).value();
  }

  nn::Model model_;
  testlib::ToyParameters parameters_;
  testlib::ToyInputs inputs_;
  std::unique_ptr<CountedInputs> counted_;  // of the last training
};

TEST_P(FarDeviceSessionTest, TrainsAsOnCpus) {
  const auto expected = Train({Device::Cpu(), Device::Cpu()}, nullptr);
  const auto actual =
      Train({std::make_shared<testlib::FarCpu>(), std::make_shared<testlib::FarCpu>()},
            testlib::ConnectPeers);
  EXPECT_EQ(testlib::FirstDifference(expected, actual), "");
  ASSERT_EQ(actual.trace.events_size(), expected.trace.events_size());
  for (const TraceEvent& event : actual.trace.events()) {
    EXPECT_LE(event.start_ns(), event.end_ns());
  }
}

// While a rank's thread waits for its device, the next step's inputs are prepared. If the thread
// computes itself, nothing would be gained.
TEST_P(FarDeviceSessionTest, InputsAreMadeAhead) {
  Train({Device::Cpu(), Device::Cpu()}, nullptr);
  std::vector<int> asked;
  for (int64_t step = 0; step < 4; ++step) {
    asked.push_back(counted_->CountOf(step).all);
    EXPECT_EQ(counted_->CountOf(step).ahead, 0);
  }
  Train({std::make_shared<testlib::FarCpu>(), std::make_shared<testlib::FarCpu>()},
        testlib::ConnectPeers);
  int ahead = 0;
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_EQ(counted_->CountOf(step).all, asked[step]) << "each of them once";
    ahead += counted_->CountOf(step).ahead;
  }
  EXPECT_EQ(counted_->CountOf(0).ahead, 0);
  EXPECT_GT(ahead, 0);
}

// Takes a long time for every request.
class SlowInputs : public InputProvider {
 public:
  explicit SlowInputs(InputProvider* inputs) : inputs_(*inputs) {}
  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override {
    absl::SleepFor(absl::Milliseconds(20));
    return inputs_.Load(component, input, step, samples, device);
  }

 private:
  InputProvider& inputs_;
};

// Prefetched inputs take no device time.
TEST(FarDeviceProfileTest, CountsInputsWhereTheyAreMadeByTheRank) {
  const nn::Model model = testlib::MakeToyModel();
  const auto parameters = testlib::MakeToyParameters(model, 5);
  testlib::ToyInputs drawn(&model, 9, DType::kF32);
  SlowInputs inputs(&drawn);
  for (const bool far : {false, true}) {
    DeviceWorker worker(far ? std::make_shared<testlib::FarCpu>() : Device::Cpu());
    TrainingJob job;
    job.model = &model;
    job.workers = {&worker};
    job.inputs = &inputs;
    job.frozen_parameters = parameters.frozen_pointers;
    job.backbone_parameters = nn::SourceOf(parameters.backbone);
    const auto profile = ProfileJob(job, {1}, /*on_progress=*/nullptr, /*passes=*/3);
    ASSERT_TRUE(profile.ok()) << profile.status();
    for (const ComponentProfile& component : profile->components()) {
      Nanos inputs_ns = component.load_ns_per_sample();
      for (const LayerProfile& layer : component.layers()) {
        inputs_ns += layer.timings(0).forward_ns();
      }
      EXPECT_EQ(inputs_ns < 20 * kNanosPerMilli, far) << component.name() << ": " << inputs_ns;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, FarDeviceSessionTest,
                         ::testing::Values("data_parallel", "zero3", "1f1b", "diffusionpipe",
                                           "diffusionpipe-paper,min_bubble_us=0,local_batches="),
                         [](const auto& info) {
                           return "With_" + std::regex_replace(info.param, std::regex("\\W"), "_");
                         });

// Other processes' state is gathered in host memory, because the leader's device may have no room
// for it.
TEST(FarDeviceProcessesTest, GatherTheirStateOnTheHost) {
  const testlib::ProcessSessions near;
  const testlib::ProcessSessions far([] { return std::make_shared<testlib::FarCpu>(); });
  const auto plan = near.PlanFor("zero3", 4);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto expected = near.RunAlone(*plan);
  ASSERT_TRUE(expected.ok()) << expected.status();
  testlib::SessionOutcome actual;
  for (const absl::Status& status : far.RunApart(*plan, {2, 2}, &actual)) {
    ASSERT_TRUE(status.ok()) << status;
  }
  testlib::ExpectSame(*expected, actual);
  int on_host = 0;
  for (const StateTensor& tensor : actual.state.tensors) {
    on_host += tensor.part.device()->has_host_memory();
  }
  // Of four equal shares, those of the other process's two ranks.
  EXPECT_GE(on_host, static_cast<int>(actual.state.tensors.size()) / 3);
  EXPECT_LT(on_host, static_cast<int>(actual.state.tensors.size()));
  for (const auto& [name, tensor] : actual.trained.parameters) {
    EXPECT_TRUE(tensor.device()->has_host_memory()) << name;
  }
}

}  // namespace
}  // namespace dpipe
