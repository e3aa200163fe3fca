#pragma once
// Defines what a logger is: any object with a method `log` of a step, a validation or an epoch.
#include <functional>
#include <ikebana/grammar/refuse_loader.hpp>
#include <ikebana/report.hpp>

namespace ikebana {

/// The place at which a training begins, or goes on after it was stopped, for `begin` of a logger.
struct LogStart {
  /// Steps that the trainer has made. The rows of this step and of later ones are written again.
  std::int64_t step = 0;
  /// Epochs that are completed. The rows of this epoch and of later ones are written again.
  std::optional<std::int64_t> epoch = {};
  bool resumed = false;  ///< true: goes on from a saved state, so the rows before are kept
};

namespace detail {

template <class L, class Event>
concept Logs = requires(L& logger, const Event& event) { logger.log(event); };
/// A method that takes the event only if it may change it, and would never be called.
template <class L, class Event>
concept LogsChangeable =
    !Logs<L, Event> && requires(L& logger, Event& event) { logger.log(event); };
template <class L>
concept LogsAny =
    (Logs<L, Report> || Logs<L, Validation> || Logs<L, Epoch>) && !LogsChangeable<L, Report> &&
    !LogsChangeable<L, Validation> && !LogsChangeable<L, Epoch>;

/// The methods of a logger, without its type.
class LoggerMethods {
 public:
  virtual ~LoggerMethods() = default;
  virtual bool logs_steps() const = 0;
  virtual void begin(const LogStart& start) = 0;
  virtual void log(const Report& report) = 0;
  virtual void log(const Validation& validation) = 0;
  virtual void log(const Epoch& epoch) = 0;
};

template <class L>
L& logger_in(L& logger) {
  return logger;
}
template <class L>
L& logger_in(std::reference_wrapper<L>& logger) {
  return logger.get();
}

template <class Held>
class LoggerOf final : public LoggerMethods {
 public:
  using L = std::unwrap_reference_t<Held>;
  explicit LoggerOf(Held logger) : logger_(std::move(logger)) {}
  bool logs_steps() const override { return Logs<L, Report>; }
  void begin([[maybe_unused]] const LogStart& start) override {
    if constexpr (requires(L& l) { l.begin(start); }) logger_in(logger_).begin(start);
  }
  void log(const Report& report) override { log_if(report); }
  void log(const Validation& validation) override { log_if(validation); }
  void log(const Epoch& epoch) override { log_if(epoch); }

 private:
  template <class Event>
  void log_if([[maybe_unused]] const Event& event) {
    if constexpr (Logs<L, Event>) logger_in(logger_).log(event);
  }
  Held logger_;
};

}  // namespace detail

/// Any logger, with its type erased: an object with at least one of `log(const Report&)`,
/// `log(const Validation&)` and `log(const Epoch&)`, and optionally `begin(const LogStart&)`, which
/// `fit` calls once before the first step. An element of `FitOptions::loggers`. The logger is
/// copied; `std::ref(logger)` refers to it instead. An exception of a logger ends `fit`.
class Logger {
 public:
  /// Takes a logger. The compiler refuses an object without a `log` that can be called.
  template <class L>
    requires(!std::is_same_v<std::remove_cvref_t<L>, Logger>)
  Logger(L logger) {
    if constexpr (detail::LogsAny<std::unwrap_reference_t<L>>)
      methods_ = std::make_shared<detail::LoggerOf<L>>(std::move(logger));
    else (void)sizeof(refuse::LogsNothing<std::unwrap_reference_t<L>>);
  }

  /// Returns whether it has `log(const Report&)`.
  bool logs_steps() const { return methods_->logs_steps(); }
  /// Calls the logger's `begin`, if it has one.
  void begin(const LogStart& start) const { methods_->begin(start); }
  /// Calls the logger's `log` of a step, if it has one.
  void log(const Report& report) const { methods_->log(report); }
  /// Calls the logger's `log` of a validation by steps, if it has one.
  void log(const Validation& validation) const { methods_->log(validation); }
  /// Calls the logger's `log` of an epoch, if it has one.
  void log(const Epoch& epoch) const { methods_->log(epoch); }

 private:
  std::shared_ptr<detail::LoggerMethods> methods_;
};

}  // namespace ikebana
