// A job that trains the toy model on devices of this process, with all the objects that it points
// to.
#ifndef DPIPE_TESTS_TESTLIB_TOY_JOB_H_
#define DPIPE_TESTS_TESTLIB_TOY_JOB_H_

#include <memory>
#include <vector>

#include "core/nn/model.h"
#include "core/tensor/device_worker.h"
#include "core/train/job.h"
#include "tests/testlib/toy_model.h"

namespace dpipe::testlib {

// Jobs with the same options and type have the same weights and inputs, for any number of devices.
class ToyJob {
 public:
  explicit ToyJob(int num_devices, DType compute_dtype = DType::kF32,
                  const ToyModelOptions& options = {});
  ToyJob(const ToyJob&) = delete;
  ToyJob& operator=(const ToyJob&) = delete;

  const nn::Model& model() const { return model_; }
  int num_devices() const { return static_cast<int>(workers_.size()); }
  ToyInputs& inputs() { return inputs_; }
  // The job has a peak learning rate of 1e-2 and no clipping. Tests may change it.
  TrainingJob& job() { return job_; }
  const TrainingJob& job() const { return job_; }

 private:
  nn::Model model_;
  ToyParameters parameters_;
  ToyInputs inputs_;
  std::vector<std::unique_ptr<DeviceWorker>> workers_;
  TrainingJob job_;
};

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_TOY_JOB_H_
