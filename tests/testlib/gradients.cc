#include "tests/testlib/gradients.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/runtime/session/local_session.h"

namespace dpipe::testlib {
namespace {

constexpr float kLearningRate = 0.05f;
constexpr char kGradientKind[] = "gradient of the last step";

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.size_bytes() == b.size_bytes() &&
         std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()) == 0;
}

// Updates on the host, so that every device updates in the same way.
void Descend(const Tensor& gradient, ops::Weight* weight) {
  Tensor master = weight->master();
  Tensor updated = master.ToHost();
  float* weights = updated.data<float>();
  const float* values = gradient.data<float>();
  for (int64_t i = 0; i < gradient.num_elements(); ++i) weights[i] -= kLearningRate * values[i];
  if (!master.device()->has_host_memory()) master.CopyFrom(updated);
  weight->MarkUpdated();
}

// Records the gradients that all ranks' optimizers see, by step.
class Recorder {
 public:
  absl::Status Add(int64_t step, const std::string& name, const nn::ParameterPart& part,
                   const Tensor& gradient) {
    absl::MutexLock lock(&mutex_);
    std::map<std::string, Tensor>& gradients = steps_[step];
    const auto other = gradients.find(name);
    if (!part.is_shard && other != gradients.end() && !SameBits(other->second, gradient)) {
      return absl::InternalError(absl::StrCat("ranks have different gradients of ", name));
    }
    part.AddTo(name, gradient, &gradients);
    return absl::OkStatus();
  }

  std::map<std::string, Tensor> Take(int64_t step) {
    absl::MutexLock lock(&mutex_);
    return std::move(steps_[step]);
  }

 private:
  absl::Mutex mutex_;
  std::map<int64_t, std::map<std::string, Tensor>> steps_;
};

class GradientDescent : public StepOptimizer {
 public:
  explicit GradientDescent(Recorder* recorder) : recorder_(recorder) {}

  absl::Status Step(int64_t step, bool /*ends_step*/, double /*global_norm*/,
                    nn::ParameterSet* parameters) override {
    last_.clear();
    for (nn::ParameterId id : parameters->trainable_ids()) {
      const Tensor gradient = parameters->grad(id)->ToHost();
      const std::string& name = parameters->program().parameter(id).name;
      DPIPE_RETURN_IF_ERROR(recorder_->Add(step, name, parameters->part(id), gradient));
      last_.push_back(
          ElementwiseState(kGradientKind, name, parameters->part(id), gradient.Clone()));
      Descend(gradient, parameters->mutable_weight(id));
    }
    ++updates_;
    return absl::OkStatus();
  }

  std::vector<StateTensor> State(absl::string_view /*kind*/) override { return last_; }
  int64_t num_updates() const override { return updates_; }
  absl::Status StateRestored(int64_t num_updates) override {
    updates_ = num_updates;
    return absl::OkStatus();
  }

 private:
  Recorder* const recorder_;
  std::vector<StateTensor> last_;
  int64_t updates_ = 0;
};

double RelativeDifference(const float* a, const float* b, int64_t count) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < count; ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  if (norm == 0) return difference == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(difference / norm);
}

// Runs one step at a time, because only the gradients of the last step can be collected.
absl::StatusOr<std::vector<StepGradients>> GradientsOfProcesses(LocalSession* session, int steps) {
  std::vector<StepGradients> result;
  for (int k = 0; k < steps; ++k) {
    DPIPE_ASSIGN_OR_RETURN(const RunResult run,
                           session->Run(1, /*is_last=*/k == steps - 1, /*record=*/false));
    DPIPE_ASSIGN_OR_RETURN(auto gradients, session->Collect(kGradientKind));
    result.push_back({run.steps[0].sample_losses, std::move(gradients)});
  }
  return result;
}

}  // namespace

absl::StatusOr<std::vector<StepGradients>> GradientsOf(const TrainingJob& job, const Plan& plan,
                                                       int steps) {
  Recorder recorder;
  LocalSessionOptions options;
  options.plan = plan;
  options.model = job.model;
  options.workers = job.workers;
  options.processes = job.processes;
  options.inputs = job.inputs;
  options.frozen_parameters = job.frozen_parameters;
  options.load_frozen = job.load_frozen;
  options.initial_parameters = job.backbone_parameters.get();
  options.optimizer = [&recorder](const nn::ParameterSet&) {
    return std::make_unique<GradientDescent>(&recorder);
  };
  options.compute_dtype = job.compute_dtype;
  options.deadline = job.deadline;
  options.connect = job.connect;
  DPIPE_ASSIGN_OR_RETURN(const auto session, LocalSession::Create(std::move(options)));
  if (job.processes != nullptr && job.processes->is_leader()) {
    return GradientsOfProcesses(session.get(), steps);
  }
  if (job.processes != nullptr) {
    DPIPE_RETURN_IF_ERROR(session->Follow());
    return std::vector<StepGradients>();
  }
  DPIPE_ASSIGN_OR_RETURN(const RunResult run,
                         session->Run(steps, /*is_last=*/true, /*record=*/false));
  std::vector<StepGradients> result;
  for (const StepResult& step : run.steps) {
    result.push_back({step.sample_losses, recorder.Take(step.step)});
  }
  return result;
}

std::string FirstDifference(const std::vector<StepGradients>& a,
                            const std::vector<StepGradients>& b) {
  if (a.size() != b.size()) return absl::StrCat(a.size(), " and ", b.size(), " steps");
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].sample_losses != b[k].sample_losses) return absl::StrCat("losses of step ", k);
    if (a[k].gradients.size() != b[k].gradients.size()) return "numbers of parameters";
    for (const auto& [name, gradient] : a[k].gradients) {
      const auto other = b[k].gradients.find(name);
      if (other == b[k].gradients.end()) return absl::StrCat("no gradient of ", name);
      if (!SameBits(gradient, other->second)) {
        return absl::StrCat("gradient of ", name, " in step ", k);
      }
    }
  }
  return "";
}

double LargestRelativeDifference(const std::vector<StepGradients>& a,
                                 const std::vector<StepGradients>& b) {
  double largest = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
    for (size_t i = 0; i < a[k].sample_losses.size(); ++i) {
      const std::vector<float>&x = a[k].sample_losses[i], &y = b[k].sample_losses[i];
      largest = std::max(largest, RelativeDifference(x.data(), y.data(), x.size()));
    }
    for (const auto& [name, gradient] : a[k].gradients) {
      const Tensor& other = b[k].gradients.at(name);
      largest = std::max(largest, RelativeDifference(gradient.data<float>(), other.data<float>(),
                                                     gradient.num_elements()));
    }
  }
  return largest;
}

}  // namespace dpipe::testlib
