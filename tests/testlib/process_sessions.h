// Sessions of a job of several processes. The processes are threads here and share nothing but the
// model: each has its own connection to the store, its own session and its own ranks.
#ifndef DPIPE_TESTS_TESTLIB_PROCESS_SESSIONS_H_
#define DPIPE_TESTS_TESTLIB_PROCESS_SESSIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/comm/rendezvous/testing/local_job.h"
#include "core/nn/model.h"
#include "core/proto/plan.pb.h"
#include "core/runtime/session/local_session.h"
#include "core/tensor/device.h"
#include "core/train/job.h"
#include "tests/testlib/training.h"

namespace dpipe::testlib {

struct JobShape {
  int processes = 2;
  int ranks = 1;  // per process
};
// Returns "2x1".
std::string JobShapeName(const JobShape& shape);

inline constexpr int kSessionSteps = 4;

struct SessionOutcome {
  TrainingOutcome trained;
  SessionState state;
  std::map<std::string, Tensor> averages;
  std::vector<int64_t> peaks;
};

// Trains kSessionSteps steps in two runs, and collects all results.
absl::Status TrainAll(LocalSession* session, SessionOutcome* outcome);

// Returns a reader of `state`, which must outlive it.
StateReader ReaderOf(const SessionState* state);

// Fails the test if losses, weights, state or averages differ in a bit.
void ExpectSame(const SessionOutcome& expected, const SessionOutcome& actual);

// Runs sessions of the toy model.
class ProcessSessions {
 public:
  using Lead = std::function<absl::Status(LocalSession*, SessionOutcome*)>;
  using Follow = std::function<absl::Status(LocalSession*, int process)>;
  using Change = std::function<void(int process, TrainingJob*)>;

  explicit ProcessSessions(std::function<std::shared_ptr<Device>()> make_device = [] {
    return Device::Cpu();
  });

  const nn::Model& model() const { return model_; }
  absl::StatusOr<Plan> PlanFor(const std::string& strategy, int num_devices) const;

  // Runs all ranks in one process.
  absl::StatusOr<SessionOutcome> RunAlone(const Plan& plan, const Lead& lead = TrainAll) const;
  // Returns a status per process, and the leader's outcome. `follow` may replace
  // LocalSession::Follow by faulty behaviour, and `change` changes a process's job before its
  // session starts.
  std::vector<absl::Status> RunApart(
      const Plan& plan, const JobShape& shape, SessionOutcome* outcome, const Lead& lead = TrainAll,
      const Follow& follow = FollowNormally, const Change& change = [](int, TrainingJob*) {}) const;

  static absl::Status FollowNormally(LocalSession* session, int process) {
    return session->Follow();
  }

 private:
  class Process;
  struct Parts {
    const Plan& plan;
    const Lead& lead;
    const Follow& follow;
    const Change& change;
    SessionOutcome* outcome;
  };
  absl::Status RunOne(const Parts& parts, const JobMember& member) const;

  const nn::Model model_;
  const std::function<std::shared_ptr<Device>()> make_device_;
};

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_PROCESS_SESSIONS_H_
