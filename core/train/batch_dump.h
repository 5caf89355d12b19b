// Dumps the inputs of a step with numbers that are not finite, for inspection.
#ifndef DPIPE_CORE_TRAIN_BATCH_DUMP_H_
#define DPIPE_CORE_TRAIN_BATCH_DUMP_H_

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/status.h"
#include "core/nn/model.h"
#include "core/runtime/input_provider.h"
#include "core/runtime/session/local_session.h"

namespace dpipe {

struct BatchDump {
  const nn::Model* model = nullptr;
  InputProvider* inputs = nullptr;  // the run's: it returns the same batch again
  StepResult step;
  int global_batch = 0;
  // Returns the origin of a sample of the step's global batch: a path. May be empty.
  std::function<std::string(int sample)> describe_sample;
};

// Writes step_00001234.json and step_00001234.safetensors to `folder`, which is created. Steps
// count from 1 there, as in logs. The JSON has the step's losses and gradient norm and, for each
// sample, its origin, its losses and all its scalar inputs (such as a timestep). Numbers that are
// not finite are strings: "nan", "inf", "-inf". The tensors are all external inputs of the
// components, by "component.input", with one row per sample. Returns the JSON's path. Call it
// between steps or after a run.
absl::StatusOr<std::string> DumpBatch(const BatchDump& dump, const std::string& folder);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_BATCH_DUMP_H_
