// What went into a step whose numbers are not finite, for a person to look at.
#ifndef DPIPE_CORE_TRAIN_BATCH_DUMP_H_
#define DPIPE_CORE_TRAIN_BATCH_DUMP_H_

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/status.h"
#include "core/nn/model.h"
#include "core/runtime/input_provider.h"
#include "core/runtime/local_session.h"

namespace dpipe {

struct BatchDump {
  const nn::Model* model = nullptr;
  InputProvider* inputs = nullptr;  // the run's: it gives the same batch again
  StepResult step;
  int global_batch = 0;
  // Where a sample of the step's global batch comes from: a path. May be empty.
  std::function<std::string(int sample)> describe_sample;
};

// Writes step_00001234.json and step_00001234.safetensors in `folder`, which is made; steps count
// from 1 there, as in logs. The JSON has
// the step's losses and gradient norm and, for each sample, its origin, its losses and every drawn
// number of it (a timestep). The tensors are all that the components read from outside, by
// "component.input", with one row a sample. Numbers that are not finite are strings in the JSON:
// "nan", "inf", "-inf". Returns the JSON's path. Between steps or after a run.
absl::StatusOr<std::string> DumpBatch(const BatchDump& dump, const std::string& folder);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_BATCH_DUMP_H_
