#pragma once
// Values of choices that do not exist, such as Precision<double>{}, and of policies without their
// choice, such as Precision{}: they can be written, so that the error is the refusal of the recipe.
#include <ikebana/checks/policies.hpp>

namespace ikebana {

/// Stands for the choice of a policy that is written without one.
struct Unnamed;

namespace detail {
template <class Policy>
concept unlisted = !refuse::listed<Policy>;
}  // namespace detail

// The lines are written out, because clang would show the lines of a macro before the lines of the
// program.
template <class Choice>
  requires detail::unlisted<Precision<Choice>>
struct Precision<Choice> {
  template <class... Given>
  constexpr Precision(Given&&...) {
    (void)sizeof(typename refuse::choice<Precision<Choice>>::type);
  }
};
template <class... Given>
Precision(Given...) -> Precision<Unnamed>;

template <class Choice>
  requires detail::unlisted<Checkpoint<Choice>>
struct Checkpoint<Choice> {
  template <class... Given>
  constexpr Checkpoint(Given&&...) {
    (void)sizeof(typename refuse::choice<Checkpoint<Choice>>::type);
  }
};
template <class... Given>
Checkpoint(Given...) -> Checkpoint<Unnamed>;

template <class Choice>
  requires detail::unlisted<Observe<Choice>>
struct Observe<Choice> {
  template <class... Given>
  constexpr Observe(Given&&...) {
    (void)sizeof(typename refuse::choice<Observe<Choice>>::type);
  }
};
template <class... Given>
Observe(Given...) -> Observe<Unnamed>;

template <class Choice>
  requires detail::unlisted<Shard<Choice>>
struct Shard<Choice> {
  template <class... Given>
  constexpr Shard(Given&&...) {
    (void)sizeof(typename refuse::choice<Shard<Choice>>::type);
  }
};
template <class... Given>
Shard(Given...) -> Shard<Unnamed>;

template <class Choice>
  requires detail::unlisted<Layout<Choice>>
struct Layout<Choice> {
  template <class... Given>
  constexpr Layout(Given&&...) {
    (void)sizeof(typename refuse::choice<Layout<Choice>>::type);
  }
};
template <class... Given>
Layout(Given...) -> Layout<Unnamed>;

template <class Where, class... What>
  requires detail::unlisted<Offload<Where, What...>>
struct Offload<Where, What...> {
  template <class... Given>
  constexpr Offload(Given&&...) {
    (void)sizeof(typename refuse::choice<Offload<Where, What...>>::type);
  }
};
template <class... Given>
Offload(Given...) -> Offload<Unnamed>;

}  // namespace ikebana
