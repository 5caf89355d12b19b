// Sessions of several processes with messages over a fake NCCL, on fake GPUs. Ranks compute on
// CPUs, but the order, matching and completion of messages are as on GPUs.
#include <memory>
#include <string>
#include <vector>

#include "core/comm/nccl/connect_nccl.h"
#include "core/comm/nccl/testing/fake_nccl.h"
#include "core/comm/nccl/testing/send_through_gpu.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/process_sessions.h"
#include "tests/testlib/session_conformance.h"
#include "tests/testlib/toy_model.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testlib::JobShape;
using testlib::SessionConformanceTest;
using testlib::SessionOutcome;
using testlib::TrainAll;

// One GPU per rank.
class FakeGpus {
 public:
  explicit FakeGpus(int count) : nccl_(&driver_) {
    driver_.SetNumGpus(count);
    devices_ = *cuda::CreateCudaDevices(&driver_, count);
  }
  ~FakeGpus() {
    EXPECT_EQ(nccl_.num_live_communicators(), 0);
    EXPECT_THAT(driver_.violations(), IsEmpty());
    EXPECT_THAT(nccl_.violations(), IsEmpty());
  }

  ConnectJobRankFn connect() {
    return [this](StoreClient* store,
                  const JobRank& rank) -> absl::StatusOr<std::unique_ptr<Communicator>> {
      JobRank there = rank;
      there.device = devices_[rank.rank.value()];
      DPIPE_ASSIGN_OR_RETURN(auto inner, ConnectNccl(nccl_.api(), store, there));
      return SendThroughGpu(std::move(inner), there.device, rank.device);
    };
  }

 private:
  cuda::FakeDriver driver_;
  FakeNccl nccl_;
  std::vector<std::shared_ptr<Device>> devices_;
};

class NcclSessionTest : public ::testing::Test, protected testlib::ProcessSessions {};

std::vector<absl::Status> RunOverNccl(const testlib::ProcessSessions& sessions, const Plan& plan,
                                      const JobShape& shape, SessionOutcome* outcome) {
  FakeGpus gpus(plan.num_devices());
  const auto by_nccl = [&](int, TrainingJob* job) { job->connect_in_job = gpus.connect(); };
  return sessions.RunApart(plan, shape, outcome, TrainAll, testlib::ProcessSessions::FollowNormally,
                           by_nccl);
}

INSTANTIATE_TEST_SUITE_P(Nccl, SessionConformanceTest, testlib::SessionCases(RunOverNccl),
                         testlib::SessionCaseName);

// Every rank reads the state saved after two steps, from process 0.
TEST_F(NcclSessionTest, StateReturnsToItsRanks) {
  const auto plan = PlanFor("zero3", 4);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Lead there_and_back = [&](LocalSession* session, SessionOutcome* outcome) -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(SessionState saved, session->State());
    for (StateTensor& tensor : saved.tensors) tensor.part = tensor.part.Clone();
    DPIPE_RETURN_IF_ERROR(session->Run(2, /*is_last=*/false, /*record=*/false).status());
    DPIPE_RETURN_IF_ERROR(session->Restore(saved.num_updates, testlib::ReaderOf(&saved)));
    DPIPE_ASSIGN_OR_RETURN(outcome->state, session->State());
    DPIPE_ASSIGN_OR_RETURN(outcome->trained.parameters, session->CollectParameters());
    return absl::OkStatus();
  };
  const auto expected = RunAlone(*plan, there_and_back);
  ASSERT_TRUE(expected.ok()) << expected.status();
  FakeGpus gpus(4);
  SessionOutcome actual;
  for (const absl::Status& status :
       RunApart(*plan, {2, 2}, &actual, there_and_back, FollowNormally,
                [&](int, TrainingJob* job) { job->connect_in_job = gpus.connect(); })) {
    ASSERT_TRUE(status.ok()) << status;
  }
  // Except for the step number, which continues.
  actual.state.next_step = expected->state.next_step;
  testlib::ExpectSame(*expected, actual);
}

// Inputs that cannot be read from the third step on.
class FailingInputs : public InputProvider {
 public:
  explicit FailingInputs(InputProvider* inner) : inner_(inner) {}
  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override {
    if (step >= 2) return absl::DataLossError("the disk is gone");
    return inner_->Load(component, input, step, samples, device);
  }

 private:
  InputProvider* const inner_;
};

// connect_nccl_test checks what each rank waited for.
TEST_F(NcclSessionTest, AFailedRankEndsAllWithItsInstructionAndReason) {
  const auto plan = PlanFor("1f1b", 2);
  ASSERT_TRUE(plan.ok()) << plan.status();
  FakeGpus gpus(2);
  std::unique_ptr<FailingInputs> failing;
  const auto change = [&](int process, TrainingJob* job) {
    job->connect_in_job = gpus.connect();
    if (process == 0) return;
    failing = std::make_unique<FailingInputs>(job->inputs);
    job->inputs = failing.get();
  };
  SessionOutcome outcome;
  for (const absl::Status& status :
       RunApart(*plan, {2, 1}, &outcome, TrainAll, FollowNormally, change)) {
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("rank 1, step 2, instruction "), HasSubstr("the disk is gone")));
  }
}

}  // namespace
}  // namespace dpipe
