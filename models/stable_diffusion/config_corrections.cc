#include "models/stable_diffusion/config_corrections.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace dpipe::models {
namespace {

constexpr int64_t kSampleSize = 64;

// True for versions 0.0 to 0.8 with any third number: "0.8.1", "0.6.0.dev0".
bool IsBefore09(const std::string& version) {
  const std::vector<std::string> parts = absl::StrSplit(version, '.');
  int minor;
  return parts.size() >= 2 && parts[0] == "0" && absl::SimpleAtoi(parts[1], &minor) && minor < 9;
}

}  // namespace

void CorrectScheduler(diffusion::NoiseScheduleOptions* scheduler) {
  scheduler->steps_offset = 1;
  scheduler->clip_sample = false;
}

void CorrectSampleSize(UNetConfig* unet) {
  if (unet->sample_size >= kSampleSize || !IsBefore09(unet->diffusers_version)) return;
  unet->sample_size = kSampleSize;
}

}  // namespace dpipe::models
