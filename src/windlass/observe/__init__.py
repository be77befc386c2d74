"""What makes a running instance visible: logs, metrics, health. Looks at plain reports and never touches the engine."""
