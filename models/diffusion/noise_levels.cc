#include "models/diffusion/karras_sigmas.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace dpipe::diffusion {
namespace {

constexpr double kRho = 7;
// Below any sigma of noise; keeps logarithms finite where there is none.
constexpr double kLeastSigma = 1e-10;
// A place that rounding has moved from a timestep, as by the power and root of kRho, is told by
// less than this. Truncation would make a timestep less of it.
constexpr double kSameTimestep = 1e-6;

double Sigma(const NoiseSchedule& schedule, int timestep) {
  double a = schedule.alpha_cumprod(timestep);
  if (a == 0) a = kLeastAlphaCumprod;
  return std::sqrt((1 - a) / a);
}

double Log(double sigma) { return std::log(std::max(sigma, kLeastSigma)); }

// Where `sigma` lies between timesteps, by log sigma, in [0, log_sigmas.size() - 1]. `log_sigmas`
// of all timesteps never decrease.
double Place(const std::vector<double>& log_sigmas, double sigma) {
  const double wanted = Log(sigma);
  const auto above = std::upper_bound(log_sigmas.begin(), log_sigmas.end(), wanted);
  if (above == log_sigmas.begin()) return 0;
  const double below = static_cast<double>(above - log_sigmas.begin()) - 1;
  if (above == log_sigmas.end()) return below;
  return below + (wanted - above[-1]) / (*above - above[-1]);
}

int Timestep(const NoiseSchedule& schedule, double place) {
  if (schedule.options().beta_schedule != BetaSchedule::kSquaredCosCapV2) {
    return static_cast<int>(std::nearbyint(place));
  }
  return static_cast<int>(place + kSameTimestep);
}

}  // namespace

std::vector<NoiseLevel> KarrasNoiseLevels(const NoiseSchedule& schedule, int num_levels) {
  DPIPE_CHECK_GE(num_levels, 1);
  std::vector<double> log_sigmas;
  for (int t = 0; t < schedule.num_timesteps(); ++t) {
    log_sigmas.push_back(Log(Sigma(schedule, t)));
  }
  const double most = std::pow(Sigma(schedule, schedule.num_timesteps() - 1), 1 / kRho);
  const double least = std::pow(Sigma(schedule, 0), 1 / kRho);
  std::vector<NoiseLevel> levels;
  for (int i = 0; i < num_levels; ++i) {
    const double share = num_levels == 1 ? 0 : static_cast<double>(i) / (num_levels - 1);
    const double sigma = std::pow(most + share * (least - most), kRho);
    levels.push_back({sigma, Timestep(schedule, Place(log_sigmas, sigma))});
  }
  return levels;
}

}  // namespace dpipe::diffusion
