// For tests: a small StableDiffusionXLPipeline folder.
#ifndef DPIPE_MODELS_SDXL_TESTING_SDXL_FOLDER_H_
#define DPIPE_MODELS_SDXL_TESTING_SDXL_FOLDER_H_

#include <string>

namespace dpipe::models {

// Replaces `folder` by the pipeline of models/sdxl/testdata/make_goldens.py: its configurations,
// data/tiny_sd's vocabulary, and weights from the formula of models/testdata/formula_weights.h.
void WriteSdxlFolder(const std::string& folder);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_SDXL_TESTING_SDXL_FOLDER_H_
