#include "models/diffusion/noise_schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe::diffusion {
namespace {

std::vector<double> Linspace(double first, double last, int n) {
  std::vector<double> values(n, first);
  for (int i = 1; i < n; ++i) values[i] = first + (last - first) * i / (n - 1);
  return values;
}

// Returns abar of the squared-cosine schedule at a share t of the process. s = 0.008 keeps the
// first betas from vanishing.
double CosineAlphaBar(double t) {
  const double c = std::cos((t + 0.008) / 1.008 * M_PI / 2);
  return c * c;
}

std::vector<double> Betas(const NoiseScheduleOptions& options) {
  const int n = options.num_train_timesteps;
  switch (options.beta_schedule) {
    case BetaSchedule::kLinear:
      return Linspace(options.beta_start, options.beta_end, n);
    case BetaSchedule::kScaledLinear: {
      std::vector<double> betas =
          Linspace(std::sqrt(options.beta_start), std::sqrt(options.beta_end), n);
      for (double& beta : betas) beta *= beta;
      return betas;
    }
    case BetaSchedule::kSquaredCosCapV2: {
      std::vector<double> betas(n);
      for (int i = 0; i < n; ++i) {
        const double ratio = CosineAlphaBar((i + 1.0) / n) / CosineAlphaBar(i / double(n));
        betas[i] = std::min(1 - ratio, 0.999);
      }
      return betas;
    }
  }
  return {};
}

// Shifts sqrt(abar) to make the last one 0, and scales it to keep the first one.
void RescaleToZeroTerminalSnr(std::vector<double>* alphas_cumprod) {
  const double first = std::sqrt(alphas_cumprod->front());
  const double last = std::sqrt(alphas_cumprod->back());
  if (first == last) return;
  for (double& a : *alphas_cumprod) {
    const double root = (std::sqrt(a) - last) * first / (first - last);
    a = root * root;
  }
}

}  // namespace

absl::Status CheckPrediction(const NoiseScheduleOptions& options) {
  if (!options.rescale_zero_terminal_snr || options.prediction_type != PredictionType::kEpsilon) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "zero terminal SNR (rescale_betas_zero_snr) requires a prediction type of v_prediction or "
      "sample, not epsilon");
}

NoiseSchedule::NoiseSchedule(const NoiseScheduleOptions& options,
                             std::vector<double> alphas_cumprod)
    : options_(options), alphas_cumprod_(std::move(alphas_cumprod)) {}

absl::StatusOr<NoiseSchedule> NoiseSchedule::Create(const NoiseScheduleOptions& options) {
  if (options.num_train_timesteps < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a noise schedule of ", options.num_train_timesteps, " timesteps; at least 1 is needed"));
  }
  std::vector<double> alphas_cumprod;
  double product = 1;
  for (double beta : Betas(options)) {
    if (!(beta >= 0 && beta <= 1)) {
      return absl::InvalidArgumentError(absl::StrCat("beta ", beta, " at timestep ",
                                                     alphas_cumprod.size(), " is outside [0, 1]"));
    }
    product *= 1 - beta;
    alphas_cumprod.push_back(product);
  }
  if (options.rescale_zero_terminal_snr) RescaleToZeroTerminalSnr(&alphas_cumprod);
  return NoiseSchedule(options, std::move(alphas_cumprod));
}

double NoiseSchedule::alpha_cumprod(int t) const {
  DPIPE_CHECK(0 <= t && t < num_timesteps()) << "timestep " << t << " of " << num_timesteps();
  return alphas_cumprod_[t];
}

double NoiseSchedule::final_alpha_cumprod() const {
  return options_.set_alpha_to_one ? 1 : alphas_cumprod_[0];
}

double NoiseSchedule::snr(int t) const {
  const double a = alpha_cumprod(t);
  return a / (1 - a);
}

}  // namespace dpipe::diffusion
