"""Which tests are long: ``make test`` leaves them to ``make test-all``, which runs everything.

A test is long that has the marker ``long``, that is one of benchmarks, that takes a fixture of
``LONG_FIXTURES``, or that is one of the cases of a costly function which ``CASES`` does not choose.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch

import pytest

LONG_FIXTURES = {"three_ranks", "agreement", "several_steps", "commands", "told"}
"""Fixtures that start three ranks or more."""

CASES: dict[str, dict[str, int | tuple[str, ...]]] = {
    # Pages that a reader follows from the first line; the other pages are long.
    "test_documents.py": {
        "test_the_examples_of_a_page_run_in_their_order": ("README.md", "docs/tutorial_*"),
    },
    # How many of the others.
    "test_bridge.py": {
        "test_a_capacitor_across_a_source_is_solved": 3,
    },
    "test_catalogue.py": {
        "test_solutions_with_and_without_reduction_end_at_the_same_values": 2,
    },
    "test_checkpoint.py": {
        "test_a_resumed_run_to_a_tolerance_is_the_run_without_checkpoints": 6,
    },
    "test_codegen.py": {
        "test_long_programs": 2,
    },
    "test_complex_step.py": {
        "test_copies_have_arrays_of_their_own": 2,
    },
    "test_conduction_pulses.py": {
        "test_a_bridge_is_right_in_every_row": 2,
    },
    "test_declared_index.py": {
        "test_called_equations_whose_rows_are_mixed_by_the_unknowns_hold_30_rtol": 1,
        "test_derivatives_of_inputs_that_are_not_smooth_are_taken_beside_where_they_are_not": 2,
        "test_linear_equations_of_index_2_hold_30_rtol_in_every_unknown": 4,
    },
    "test_error_estimates.py": {
        "test_with_success_turning_coordinates_cost_no_more_than_is_told": 2,
    },
    "test_frames.py": {
        "test_a_frame_with_138_degrees_of_freedom_agrees_with_numbers": 1,
        "test_derivatives_of_frames_are_exact": 2,
    },
    "test_from_pysdc.py": {
        "test_equations_are_read_in_a_description": 6,
    },
    "test_growth_of_errors.py": {
        "test_growth_of_the_solution_itself_is_never_refused": 2,
        "test_rows_mixed_by_the_unknowns_are_solved_or_refused": 1,
    },
    "test_hidden_constraints.py": {
        "test_problems_with_kernels_are_read_where_it_is_asked": 2,
    },
    "test_in_pysdc.py": {
        "test_a_run_goes_on_from_its_checkpoint_to_the_last_bit": 2,
        "test_a_switch_is_met_in_every_run_of_a_fixed_step_size": 1,
        "test_a_switch_is_met_where_steps_iterate_together": 3,
    },
    "test_index.py": {
        "test_the_index_of_scrambled_linear_equations_is_found": 2,
    },
    "test_invariants.py": {
        "test_every_kind_of_method_keeps_its_order_on_the_invariants": 1,
    },
    "test_jumps_of_algebraic_unknowns.py": {
        "test_an_algebraic_unknown_jumps_where_a_conductance_switches": 3,
        "test_buck_converters_run_by_default": 4,
    },
    "test_linear.py": {
        "test_factors_do_not_change_with_the_matrix_they_were_made_of": 4,
    },
    "test_manifold.py": {
        "test_drift_from_the_constraints_over_a_long_time": 2,
        "test_methods_reach_their_orders_on_every_type": 9,
    },
    "test_manifold_problems.py": {
        "test_compiled_equations_are_those_of_the_parts_in_every_formulation": 1,
        "test_known_solutions_satisfy_every_formulation": 2,
    },
    "test_multistep.py": {
        "test_all_components_of_daes_have_the_order_of_the_method": 3,
        "test_the_end_of_the_elastic_pendulum_is_off_by_the_error_of_the_method": 3,
    },
    "test_parallel.py": {
        "test_the_order_check_passes_on_ranks": 0,
    },
    "test_parallel_faults.py": {
        "test_a_hook_that_raises_on_one_rank_ends_all": ("steps-2",),
        "test_a_killed_rank_takes_the_others_with_it_and_files_stay_whole": 0,
        "test_finished_results_stay_when_a_run_is_ended": ("terminate_ranks",),
        "test_the_command_says_in_one_line_what_happened_on_any_rank": ("MemoryError-steps-2-*",),
    },
    "test_parts_of_pysdc.py": {
        "test_every_part_works_or_refuses_in_a_line": 5,
    },
    "test_plotting.py": {
        "test_formats_follow_the_suffix_and_are_the_same_every_time": 2,
        "test_texts_of_any_letters_are_drawn": 2,
        "test_the_picture_goes_beside_the_result": 2,
        "test_time_steps_without_a_place_on_a_logarithmic_axis_are_refused_with_their_row": 2,
        "test_values_of_any_size_are_drawn": 2,
    },
    "test_problem_starts.py": {
        "test_a_perturbed_start_is_refused_by_name_or_repaired_as_asked": 1,
    },
    "test_problems.py": {
        "test_a_problem_with_eval_f_alone_passes_the_tests_of_this_file": 1,
    },
    "test_quasilinear.py": {
        "test_radau_has_the_orders_of_theory_by_component_class": 2,
    },
    "test_reduction.py": {
        "test_end_values_of_the_test_set": 2,
        "test_every_model_is_reduced_to_regular_equations": 2,
        "test_robot_arm_follows_its_path": 1,
    },
    "test_results_kept.py": {
        "test_a_signal_ends_a_run_with_its_code_and_keeps_what_there_is": 1,
        "test_output_times_have_the_same_digits_where_steps_are_forgotten": 2,
        "test_streams_that_take_nothing_keep_the_result": 1,
    },
    "test_scripts.py": {
        "test_a_file_of_the_room_run_is_the_verb_or_says_in_a_line_that_it_is_none": 0,
        "test_a_script_does_what_the_verb_does": 1,
    },
    "test_simplify.py": {
        "test_the_equations_hold_for_what_is_said_of_the_unknowns": 2,
    },
    "test_singular.py": {
        "test_a_run_does_not_creep_onto_the_other_branch": 1,
        "test_regular_models_report_nothing": 2,
    },
    "test_site.py": {
        "test_the_example_of_a_kind_of_picture_draws_it": 2,
    },
    "test_square_waves.py": {
        "test_a_square_wave_is_right_in_every_spelling": 5,
    },
    "test_steady.py": {
        "test_every_entry_of_the_catalogue_rests_or_is_known_not_to": 11,
    },
    "test_structure_models.py": {
        "test_pictures": 2,
    },
    "test_sundials.py": {
        "test_the_first_order_needs_as_many_steps_as_its_error_says": 0,
    },
    "test_surroundings.py": {
        "test_serial_runs_and_studies_need_no_mpi": 1,
    },
    "test_suspension.py": {
        "test_a_stiff_suspension_is_rigid": 0,
        "test_assumptions_have_their_index_and_poles": 1,
        "test_small_loads_move_it_as_the_linear_answer_says": 0,
    },
    "test_tableaux.py": {
        "test_declared_orders_are_measured": 4,
    },
    "test_transfer.py": {
        "test_matched_levels_halve_the_iterations_at_index_2": 3,
    },
    "test_triangular.py": {
        "test_addresses_serve_as_arrays_in_compiled_code": 2,
        "test_other_values_of_a_pattern_are_factorised_with_its_pivots": 3,
    },
    "test_undeclared.py": {
        "test_derivatives_in_combinations_that_change": 2,
        "test_pendula_that_drive_each_other": 2,
    },
}
"""Cases of costly functions in the fast suite, by file: how many, spread over all, or patterns of names."""


def spread(count: int, of: int) -> set[int]:
    """So many of the numbers from 0 to ``of`` - 1, the first and the last among them, evenly spread."""
    return {round(k * (of - 1) / max(count - 1, 1)) for k in range(min(count, of))}


def fast_cases(family: str, names: Sequence[str]) -> set[int]:
    """Which cases of a function the fast suite runs, by their place."""
    file, _, function = family.partition("::")
    chosen = CASES.get(file, {}).get(function, len(names))
    if isinstance(chosen, int):
        return spread(chosen, len(names))
    return {k for k, name in enumerate(names) if any(fnmatch(name, pattern) for pattern in chosen)}


def mark_long(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that the fast suite does not run; a case that is asked for alone is one of few."""
    families = defaultdict(list)
    for item in items:
        name, _, case = item.nodeid.partition("[")
        families[name.rpartition("/")[2]].append((item, case.removesuffix("]")))
    for family, cases in families.items():
        fast = fast_cases(family, [case for _, case in cases])
        for k, (item, _) in enumerate(cases):
            starts_ranks = not LONG_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
            if k not in fast or starts_ranks or "benchmarks" in item.path.parts:
                item.add_marker(pytest.mark.long)
