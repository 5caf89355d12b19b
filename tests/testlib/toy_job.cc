#include "tests/testlib/toy_job.h"

namespace dpipe::testlib {

ToyJob::ToyJob(int num_devices, DType compute_dtype, const ToyModelOptions& options)
    : model_(MakeToyModel(options)),
      parameters_(MakeToyParameters(model_, /*seed=*/5)),
      inputs_(&model_, /*seed=*/9, compute_dtype),
      workers_(StartWorkers(std::vector<std::shared_ptr<Device>>(num_devices, Device::Cpu()))) {
  job_.model = &model_;
  for (const auto& worker : workers_) job_.workers.push_back(worker.get());
  job_.inputs = &inputs_;
  job_.frozen_parameters = parameters_.frozen_pointers;
  job_.backbone_parameters = nn::SourceOf(parameters_.backbone);
  job_.optimizer.learning_rate.peak = 1e-2f;
  job_.compute_dtype = compute_dtype;
}

}  // namespace dpipe::testlib
